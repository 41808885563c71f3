// SPDX-License-Identifier: Apache-2.0
/* The policy fallback: the fallback of one kernel row under another. */
#include "check.h"
#include "toy.h"

TEST(the_parameter_names_the_kernel_row_of_the_fallback)
{
	static const char *const rows[] = {"4.20", "6.8", "6.18"};
	static const struct {
		const char *policy;
		uint64_t page; /* for a MOVABLE request; the free chunks are at 0 and 12 */
		int order;     /* of the UNMOVABLE list that is not empty afterwards */
		const char *left;
	} cases[] = {
		{"fallback:kernel=6.18", 0, 1, "12"},
		{"fallback:kernel=4.20", 0, 1, "12"},
		/* Up to 2.6.33 the largest chunk is taken, and its remainder stays UNMOVABLE. */
		{"fallback:kernel=2.6.33", 12, 0, "13 0"},
	};

	for (size_t i = 0; i < 9; i++) {
		TOY(t, toy_new_under, rows[i % 3], cases[i / 3].policy,
		    (struct toy_geometry){4, 5, "UUUU", ZONE_DMA32});
		toy_pcp(&t, 1, 8);
		toy_add_free(&t, 0, 0, 'U');
		toy_add_free(&t, 12, 1, 'U');
		check(toy_alloc(&t, 0, 'M') == cases[i / 3].page);
		check_text(toy_list(&t, cases[i / 3].order, 'U'), cases[i / 3].left);
		check_sound(t.m);
	}
}
