/* SPDX-License-Identifier: Apache-2.0 */
/* page_uses.c - each allocation of a page with the event that ends it. */
#include "sequence.h"

#include "batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FIRST_RUNS = 1 << 10, /* capacity; a power of two */
	RUN_PAGES = 16,       /* neighbours, with one entry in the hash table */
	PIECE = 1 << 8,       /* events whose pages are fetched before the first is read */
};

/* What an event of a group of the batch says of its page. */
struct said {
	uint32_t cpu : 16;
	uint32_t page_order : 8;
	uint32_t migratetype : 4;
	uint32_t has_order : 1;
	uint32_t has_type : 1;
	uint32_t counts : 1;
	uint32_t allocated : 1; /* otherwise freed */
};

/* The last event of a page. */
struct page {
	uint64_t ts;
	int32_t pid;
	struct said said; /* without an event of the page, it does not count */
};

struct page_uses {
	struct sequence_kinds kinds;
	struct page_use_choice choice;
	uint64_t *numbers;  /* pfn / RUN_PAGES + 1; 0: free */
	struct page *pages; /* RUN_PAGES of each */
	size_t capacity;    /* runs, as all below */
	size_t nr;
	size_t most;
	size_t ending;                 /* next entry of `pages` of page_uses_end() */
	struct said said[GROUPS_MOST]; /* by group of the batch */
	/* Of a piece of the batch: the events that count, and the entries of their pages. */
	uint32_t counted[PIECE];
	size_t places[PIECE];
};

/* Memory for so many runs; whether there is some. */
static bool allocate(struct page_uses *u, size_t capacity)
{
	u->capacity = capacity;
	u->numbers = calloc(capacity, sizeof(*u->numbers));
	u->pages = calloc(capacity, RUN_PAGES * sizeof(*u->pages));
	return u->numbers && u->pages;
}

int page_uses_new(struct page_uses **out, struct sequence_kinds kinds,
		  struct page_use_choice choice, size_t most)
{
	struct page_uses *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->kinds = kinds;
	u->choice = choice;
	u->most = most / (sizeof(*u->numbers) + RUN_PAGES * sizeof(*u->pages));
	if (!allocate(u, FIRST_RUNS)) {
		page_uses_free(u);
		return -ENOMEM;
	}
	*out = u;
	return 0;
}

void page_uses_free(struct page_uses *u)
{
	if (!u)
		return;
	free(u->numbers);
	free(u->pages);
	free(u);
}

/* The run's place, or the free one for it. */
static size_t place_of(const struct page_uses *u, uint64_t number)
{
	/* The finalizer of splitmix64. */
	uint64_t x = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
	size_t at;

	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	at = (x ^ (x >> 31)) & (u->capacity - 1);
	while (u->numbers[at] && u->numbers[at] != number)
		at = (at + 1) & (u->capacity - 1);
	return at;
}

static int grow(struct page_uses *u)
{
	struct page_uses old = {.numbers = u->numbers, .pages = u->pages, .capacity = u->capacity};

	if (3 * old.capacity > u->most)
		return -ENOMEM;
	if (!allocate(u, 2 * old.capacity)) {
		free(u->numbers);
		free(u->pages);
		u->numbers = old.numbers;
		u->pages = old.pages;
		u->capacity = old.capacity;
		return -ENOMEM;
	}
	for (size_t i = 0; i < old.capacity; i++) {
		size_t at = place_of(u, old.numbers[i]);

		if (!old.numbers[i])
			continue;
		u->numbers[at] = old.numbers[i];
		memcpy(&u->pages[at * RUN_PAGES], &old.pages[i * RUN_PAGES],
		       RUN_PAGES * sizeof(*u->pages));
	}
	free(old.numbers);
	free(old.pages);
	return 0;
}

static struct said said_of(const struct page_uses *u, const struct sequence_events *e, size_t i)
{
	const struct page_use_choice *c = &u->choice;
	uint8_t order = e->page_order[i], type = e->migratetype[i];
	struct said said = {
		.cpu = e->cpu[i],
		.page_order = order,
		.migratetype = type & 15,
		.counts = e->kind[i] == u->kinds.free,
		.allocated = e->kind[i] == u->kinds.alloc,
		.has_order = is_valid(e->page_order_valid, i),
		.has_type = is_valid(e->migratetype_valid, i),
	};

	if (said.allocated)
		said.counts =
			c->every || (said.has_type && type == c->migratetype && said.has_order &&
				     (order == c->orders[0] || order == c->orders[1]));
	return said;
}

/* The events of a piece that count, in u->counted; their number. */
static size_t count(struct page_uses *u, const struct sequence_events *e, size_t first, size_t end)
{
	size_t nr = 0;

	for (size_t i = first; i < end; i++) {
		u->counted[nr] = (uint32_t)i;
		nr += u->said[e->group[i]].counts & is_valid(e->pfn_valid, i) &
		      is_in_span(&u->kinds, e->ts[i]);
	}
	return nr;
}

/* The entries of the pages of so many events, in u->places. -ENOMEM. */
static int find_pages(struct page_uses *u, const struct sequence_events *e, size_t nr)
{
	while (4 * (u->nr + nr) > 3 * u->capacity) {
		if (grow(u))
			return -ENOMEM;
	}
	for (size_t k = 0; k < nr; k++) {
		uint64_t pfn = e->pfn[u->counted[k]], number = pfn / RUN_PAGES + 1;
		size_t at = place_of(u, number);

		u->nr += !u->numbers[at];
		u->numbers[at] = number;
		u->places[k] = at * RUN_PAGES + pfn % RUN_PAGES;
		__builtin_prefetch(&u->pages[u->places[k]], 1);
	}
	return 0;
}

static void put_row(struct page_use_rows *rows, size_t at, uint64_t pfn, const struct page *p)
{
	rows->pfn[at] = pfn;
	rows->ts[at] = p->ts;
	rows->cpu[at] = (uint16_t)p->said.cpu;
	rows->pid[at] = p->pid;
	rows->page_order[at] = (uint8_t)p->said.page_order;
	rows->migratetype[at] = (uint8_t)p->said.migratetype;
	if (p->said.allocated)
		set_valid(rows->begun, at);
	if (p->said.allocated && p->said.has_order)
		set_valid(rows->page_order_valid, at);
	if (p->said.allocated && p->said.has_type)
		set_valid(rows->migratetype_valid, at);
}

/* The row of a use that the event ends, or of a free without an allocation. */
static void end_use(struct page_use_rows *rows, size_t at, const struct sequence_events *e,
		    size_t i, const struct page *p, bool is_free)
{
	put_row(rows, at, e->pfn[i], p);
	if (is_free && p->said.counts && !p->said.allocated)
		set_valid(rows->freed_before, at);
	rows->until_ts[at] = e->ts[i];
	set_valid(rows->until_valid, at);
	if (is_free)
		set_valid(rows->freed, at);
}

/* Reads so many events; the number of rows, `at` of them before. -ENOMEM. */
static long read_piece(struct page_uses *u, const struct sequence_events *e, size_t nr,
		       struct page_use_rows *rows, size_t at)
{
	if (find_pages(u, e, nr))
		return -ENOMEM;
	for (size_t k = 0; k < nr; k++) {
		size_t i = u->counted[k];
		struct said said = u->said[e->group[i]];
		struct page *p = &u->pages[u->places[k]];

		if (!u->choice.unended && (!said.allocated || p->said.allocated))
			end_use(rows, at++, e, i, p, !said.allocated);
		*p = (struct page){e->ts[i], e->pid[i], said};
	}
	return (long)at;
}

long page_uses_read(struct page_uses *u, const struct sequence_events *e,
		    struct page_use_rows *rows)
{
	long found = 0;

	for (size_t i = 0; i < e->nr_groups; i++)
		u->said[i] = said_of(u, e, i);
	for (size_t first = 0; found >= 0 && first < e->nr; first += PIECE) {
		size_t end = e->nr - first < PIECE ? e->nr : first + PIECE;

		found = read_piece(u, e, count(u, e, first, end), rows, (size_t)found);
	}
	return found;
}

long page_uses_end(struct page_uses *u, size_t nr, struct page_use_rows *rows)
{
	size_t found = 0;

	for (; u->ending < u->capacity * RUN_PAGES && found < nr; u->ending++) {
		const struct page *p = &u->pages[u->ending];
		uint64_t number = u->numbers[u->ending / RUN_PAGES] - 1;

		if (!p->said.allocated)
			continue;
		put_row(rows, found, number * RUN_PAGES + u->ending % RUN_PAGES, p);
		rows->until_ts[found++] = 0;
	}
	return (long)found;
}
