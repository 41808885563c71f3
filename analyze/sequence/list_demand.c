/* SPDX-License-Identifier: Apache-2.0 */
/* list_demand.c - net demand of each CPU for pages of its lists, bin by bin. */
#include "sequence.h"

#include "batch.h"

#include <errno.h>
#include <stdlib.h>

enum { CPUS = 1 << 16, LIST_ORDERS = 4, ORDERS = 20 };

struct demand {
	uint64_t bin;
	int64_t pages;
};

struct taken {
	int64_t pages;
	uint16_t cpu;
};

struct list_demand {
	struct sequence_kinds kinds;
	uint64_t bin_ns;
	uint8_t huge_order;
	uint64_t bin, bin_ts;            /* of the last event, and its begin */
	size_t ending;                   /* next CPU of list_demand_end() */
	struct demand demands[CPUS];     /* of the bin of the CPU's last event */
	struct taken taken[GROUPS_MOST]; /* by group of the batch */
};

int list_demand_new(struct list_demand **out, struct sequence_kinds kinds, uint64_t bin_ns,
		    uint8_t huge_order)
{
	struct list_demand *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->kinds = kinds;
	d->bin_ns = bin_ns;
	d->huge_order = huge_order;
	*out = d;
	return 0;
}

void list_demand_free(struct list_demand *d)
{
	free(d);
}

static bool put_row(struct list_demand_rows *rows, size_t at, const struct demand *demand,
		    uint16_t cpu)
{
	if (!demand->pages)
		return false;
	rows->cpu[at] = cpu;
	rows->bin[at] = demand->bin;
	rows->pages[at] = demand->pages;
	return true;
}

/* What an event of a group of the batch takes from the lists of its CPU; 0: it does not count. */
static int64_t pages_of(const struct list_demand *d, const struct sequence_events *e, size_t i)
{
	uint8_t order = e->page_order[i];
	bool alloc = e->kind[i] == d->kinds.alloc;

	if ((!alloc && e->kind[i] != d->kinds.free) || !is_valid(e->page_order_valid, i) ||
	    (order >= LIST_ORDERS && (order != d->huge_order || order >= ORDERS)))
		return 0;
	return alloc ? (int64_t)1 << order : -((int64_t)1 << order);
}

long list_demand_read(struct list_demand *d, const struct sequence_events *e,
		      struct list_demand_rows *rows)
{
	size_t nr = 0;

	for (size_t i = 0; i < e->nr_groups; i++)
		d->taken[i] = (struct taken){pages_of(d, e, i), e->cpu[i]};
	for (size_t i = 0; i < e->nr; i++) {
		const struct taken *taken = &d->taken[e->group[i]];
		struct demand *demand = &d->demands[taken->cpu];

		if (!is_in_span(&d->kinds, e->ts[i]))
			continue;
		if (e->ts[i] - d->bin_ts >= d->bin_ns) {
			d->bin = e->ts[i] / d->bin_ns;
			d->bin_ts = d->bin * d->bin_ns;
		}
		if (demand->bin != d->bin) {
			nr += put_row(rows, nr, demand, taken->cpu);
			*demand = (struct demand){.bin = d->bin};
		}
		if (is_valid(e->pfn_valid, i))
			demand->pages += taken->pages;
	}
	return (long)nr;
}

long list_demand_end(struct list_demand *d, size_t nr, struct list_demand_rows *rows)
{
	size_t found = 0;

	for (; d->ending < CPUS && found < nr; d->ending++)
		found += put_row(rows, found, &d->demands[d->ending], (uint16_t)d->ending);
	return (long)found;
}
