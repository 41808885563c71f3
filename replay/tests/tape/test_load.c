// SPDX-License-Identifier: Apache-2.0
/* The snapshot that a run needs before its first event. */
#include "check.h"
#include "free_run.h"

#include <errno.h>

TEST(a_tape_without_a_snapshot_is_refused)
{
	struct replay *r = tape_replay("6.18");
	struct batch *none = toy_rows(&event_table, 0);
	struct error err = {""};

	check(tape_hand_over(r, none, true, &err) == -ENODATA);
	check_text(err.msg, "no rows of zone: the tape has no snapshot to start from");
	must(tape_load_zones(r, &err), &err);
	check(tape_hand_over(r, none, true, &err) == -ENODATA);
	check_text(err.msg, "no rows of free_block or block_guess: the tape does not say which "
			    "pages were free at its start");
	batch_free(none);
	replay_free(r);
}
