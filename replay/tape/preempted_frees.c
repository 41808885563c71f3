// SPDX-License-Identifier: Apache-2.0
#include "preempted_frees.h"

#include "model/memory.h"

#include <errno.h>
#include <stdlib.h>

int preempted_frees_add(struct preempted_frees *p, struct arrays *arrays, low_row row,
			uint32_t resumed, struct error *err)
{
	if (grow(arrays, &p->all, &p->room, p->nr + 1, sizeof(*p->all), err))
		return -ENOMEM;
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
