// SPDX-License-Identifier: Apache-2.0
#include "preempted_frees.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_ROOM = 1 << 12 };

int preempted_frees_add(struct preempted_frees *p, low_row row, uint32_t resumed, struct error *err)
{
	if (p->nr == p->room) {
		size_t room = p->room ? 2 * p->room : FIRST_ROOM;
		struct preempted_free *all = realloc(p->all, room * sizeof(*all));

		if (!all)
			return fail(err, ENOMEM, "no memory for %zu preempted frees", room);
		p->all = all;
		p->room = room;
	}
	p->all[p->nr++] = (struct preempted_free){row, resumed};
	return 0;
}

static int by_row(const void *a, const void *b)
{
	const struct preempted_free *one = a, *other = b;

	return (one->row > other->row) - (one->row < other->row);
}

void preempted_frees_sort(struct preempted_frees *p)
{
	if (p->nr)
		qsort(p->all, p->nr, sizeof(*p->all), by_row);
}

void preempted_frees_free(struct preempted_frees *p)
{
	free(p->all);
	*p = (struct preempted_frees){0};
}
