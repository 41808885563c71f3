/* SPDX-License-Identifier: Apache-2.0 */
/* page_uses.c - each allocation of a page with the event that ends it. */
#include "sequence.h"

#include "batch.h"

#include <errno.h>
#include <stdlib.h>

enum {
	FIRST_PAGES = 1 << 14, /* capacity; a power of two */
	NEAR_PAGES = 16,       /* neighbours in memory are neighbours in the table */
	AHEAD = 12,            /* events whose page is fetched early */
};

/* The last event of a page. */
struct page {
	uint64_t pfn;
	uint64_t ts;
	int32_t pid;
	uint16_t cpu;
	uint8_t page_order;
	uint8_t migratetype;
	bool used;      /* the entry has a page */
	bool allocated; /* otherwise freed */
	bool has_order;
	bool has_type;
};

struct page_uses {
	struct sequence_kinds kinds;
	struct page_use_choice choice;
	struct page *pages;
	size_t capacity;
	size_t nr;
	size_t most;   /* entries */
	size_t ending; /* next entry of page_uses_end() */
};

int page_uses_new(struct page_uses **out, struct sequence_kinds kinds,
		  struct page_use_choice choice, size_t most)
{
	struct page_uses *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->kinds = kinds;
	u->choice = choice;
	u->most = most / sizeof(*u->pages);
	u->capacity = FIRST_PAGES;
	u->pages = calloc(u->capacity, sizeof(*u->pages));
	if (!u->pages) {
		free(u);
		return -ENOMEM;
	}
	*out = u;
	return 0;
}

void page_uses_free(struct page_uses *u)
{
	if (!u)
		return;
	free(u->pages);
	free(u);
}

/* The finalizer of splitmix64, on groups of neighbours. */
static size_t place_of(uint64_t pfn, size_t capacity)
{
	uint64_t x = pfn / NEAR_PAGES;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	x ^= x >> 31;
	return (x * NEAR_PAGES + pfn % NEAR_PAGES) & (capacity - 1);
}

/* The page's entry, or the free one for it. */
static struct page *entry_of(struct page *pages, size_t capacity, uint64_t pfn)
{
	size_t at = place_of(pfn, capacity);

	while (pages[at].used && pages[at].pfn != pfn)
		at = (at + 1) & (capacity - 1);
	return &pages[at];
}

static int grow(struct page_uses *u)
{
	size_t capacity = 2 * u->capacity;
	struct page *pages;

	if (u->capacity + capacity > u->most)
		return -ENOMEM;
	pages = calloc(capacity, sizeof(*pages));
	if (!pages)
		return -ENOMEM;
	for (size_t i = 0; i < u->capacity; i++) {
		if (u->pages[i].used)
			*entry_of(pages, capacity, u->pages[i].pfn) = u->pages[i];
	}
	free(u->pages);
	u->pages = pages;
	u->capacity = capacity;
	return 0;
}

static bool counts(const struct page_uses *u, const struct sequence_events *e, size_t i)
{
	const struct page_use_choice *c = &u->choice;

	if (!is_valid(e->pfn_valid, i) || e->ts[i] < u->kinds.first_ts ||
	    e->ts[i] >= u->kinds.end_ts)
		return false;
	if (e->kind[i] == u->kinds.free)
		return true;
	if (e->kind[i] != u->kinds.alloc)
		return false;
	return c->every ||
	       (is_valid(e->migratetype_valid, i) && e->migratetype[i] == c->migratetype &&
		is_valid(e->page_order_valid, i) &&
		(e->page_order[i] == c->orders[0] || e->page_order[i] == c->orders[1]));
}

static void put_row(struct page_use_rows *rows, size_t at, const struct page *p)
{
	rows->pfn[at] = p->pfn;
	rows->ts[at] = p->ts;
	rows->cpu[at] = p->cpu;
	rows->pid[at] = p->pid;
	rows->page_order[at] = p->page_order;
	rows->migratetype[at] = p->migratetype;
	if (p->allocated)
		set_valid(rows->begun, at);
	if (p->allocated && p->has_order)
		set_valid(rows->page_order_valid, at);
	if (p->allocated && p->has_type)
		set_valid(rows->migratetype_valid, at);
}

static bool is_row(const struct page_uses *u, const struct page *p, bool is_free)
{
	return !u->choice.unended && (is_free || (p->used && p->allocated));
}

long page_uses_read(struct page_uses *u, const struct sequence_events *e,
		    struct page_use_rows *rows)
{
	size_t nr = 0;

	for (size_t i = 0; i < e->nr; i++) {
		bool is_free = e->kind[i] == u->kinds.free;
		struct page *p;

		if (i + AHEAD < e->nr)
			__builtin_prefetch(&u->pages[place_of(e->pfn[i + AHEAD], u->capacity)]);
		if (!counts(u, e, i))
			continue;
		p = entry_of(u->pages, u->capacity, e->pfn[i]);
		if (!p->used && 4 * (u->nr + 1) > 3 * u->capacity) {
			if (grow(u))
				return -ENOMEM;
			p = entry_of(u->pages, u->capacity, e->pfn[i]);
		}
		p->pfn = e->pfn[i];
		if (is_row(u, p, is_free)) {
			put_row(rows, nr, p);
			if (is_free && p->used && !p->allocated)
				set_valid(rows->freed_before, nr);
			rows->until_ts[nr] = e->ts[i];
			set_valid(rows->until_valid, nr);
			if (is_free)
				set_valid(rows->freed, nr);
			nr++;
		}
		u->nr += !p->used;
		p->used = true;
		p->allocated = !is_free;
		p->ts = e->ts[i];
		p->pid = e->pid[i];
		p->cpu = e->cpu[i];
		p->page_order = e->page_order[i];
		p->migratetype = e->migratetype[i];
		p->has_order = is_valid(e->page_order_valid, i);
		p->has_type = is_valid(e->migratetype_valid, i);
	}
	return (long)nr;
}

long page_uses_end(struct page_uses *u, size_t nr, struct page_use_rows *rows)
{
	size_t found = 0;

	for (; u->ending < u->capacity && found < nr; u->ending++) {
		const struct page *p = &u->pages[u->ending];

		if (!p->used || !p->allocated)
			continue;
		put_row(rows, found, p);
		rows->until_ts[found++] = 0;
	}
	return (long)found;
}
