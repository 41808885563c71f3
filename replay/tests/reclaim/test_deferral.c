// SPDX-License-Identifier: Apache-2.0
/* Compaction that is deferred after a failure. */
#include "check.h"
#include "reclaim_machine.h"

/* After a failure, 2^shift - 1 attempts are skipped; shift grows from 0 to 6. */
TEST(each_failure_doubles_the_skipped_attempts_up_to_64)
{
	static const int passed[] = {0, 1, 3, 7, 15, 31, 63, 63};
	struct deferral d = {0};

	for (size_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
		int n = 0;

		while (is_deferred(&d, 9))
			n++;
		check(n == passed[i]);
		defer(&d, 9);
	}
	defer_reset(&d, 9, true);
	check(d.shift == 0 && !is_deferred(&d, 9));
}

TEST(orders_below_the_one_that_failed_are_not_deferred)
{
	struct deferral d = {0};

	defer_reset(&d, 9, false);
	check(d.order_failed == 10);
	defer(&d, 9);
	check(d.order_failed == 9);
	check(!is_deferred(&d, 8));
	check(is_deferred(&d, 9));
	check(is_deferred(&d, 10) == false);
}
