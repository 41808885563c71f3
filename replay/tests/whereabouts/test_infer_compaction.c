// SPDX-License-Identifier: Apache-2.0
/* Frees of migration targets: they have an event but give no page back. */
#include "short_tape.h"

TEST(a_free_of_a_migration_target_in_use_is_undone)
{
	static const struct chunk chunks[] = {{2048, 4, MOVABLE}};
	/* Page 2048 is allocated next; page 2049 is freed again during the migration. */
	static const struct row events[] = {
		FREE(1, 512, 0),  FREE(0, 2048, 0), FREE(0, 2049, 0), ALLOC(0, 2048, 0, MOVABLE),
		FREE(0, 2049, 0),
	};
	VALIDATE *v = VALIDATED(chunks, events, .migrates_at = 1, .target = 2048);

	check(validate_totals(v)->accuracy.repairs[REPAIR_CAUSE_FREE_UNDONE].nr == 2);
	check(all_exact(v, DECISION_ALLOC, 1));
	check(validate_model(v)->pcps[0].count == 0);
}
