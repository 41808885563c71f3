// SPDX-License-Identifier: Apache-2.0
#include "scan_pace.h"

#include "model/memory.h"

#include <errno.h>

enum { CLUSTER = 32 /* SWAP_CLUSTER_MAX */, REPEATED = 16 /* the last scans of the record */ };
#define UNPLACED   SIZE_MAX
/* Their product, and sums over a pass, fit in 64 bits. */
#define NS_MOST    3600000000000ull /* 1 h */
#define PAGES_MOST (1ull << 20)     /* 4 GiB; of the lists: 16 TiB */

static const struct scan_row all_at_once = {.scanned = CLUSTER, .freed = CLUSTER};

static bool is_invalid(const struct scan_pace *pace, const struct scan_columns *c, size_t i)
{
	return c->what[i] >= NR_SCAN_WHAT || c->class_zone[i] >= NR_ZONE || c->ns[i] > NS_MOST ||
	       c->scanned[i] > PAGES_MOST || c->freed[i] > PAGES_MOST ||
	       c->lru_pages[i] > PAGES_MOST << 12 ||
	       (c->what[i] == SCAN_WHAT_KSWAPD && !c->scanned[i] &&
		(c->freed[i] || c->lru_pages[i])) ||
	       (pace->nr && c->ts[i] < pace->rows[pace->nr - 1].ts);
}

int scan_pace_load(struct scan_pace *pace, struct arrays *arrays,
		   const struct scan_columns *columns, size_t rows, struct error *err)
{
	if (grow(arrays, &pace->rows, &pace->room, pace->nr + rows, sizeof(*pace->rows), err))
		return -ENOMEM;
	for (size_t i = 0; i < rows; i++) {
		if (is_invalid(pace, columns, i))
			return fail(err, EINVAL, "scan: row %zu is invalid", i);
		pace->generations |= columns->generations[i];
		pace->rows[pace->nr++] = (struct scan_row){
			.ts = columns->ts[i],
			.ns = columns->ns[i],
			.scanned = columns->scanned[i],
			.freed = columns->freed[i],
			.lru_pages = columns->lru_pages[i],
			.pass = columns->pass[i],
			.spent = columns->spent[i],
			.node = columns->node[i],
			.cpu = columns->cpu[i],
			.class_zone = columns->class_zone[i],
			.direct = columns->what[i] == SCAN_WHAT_DIRECT ||
				  columns->what[i] == SCAN_WHAT_DIRECT_COMPACTION,
			.compacts = columns->what[i] == SCAN_WHAT_COMPACTION ||
				    columns->what[i] == SCAN_WHAT_DIRECT_COMPACTION,
			.costly = columns->page_order[i] > PCP_MAX_ORDER,
			.near = columns->what[i] == SCAN_WHAT_NODE,
		};
	}
	return 0;
}

/* The first row from `ts` on. */
static size_t first_from(const struct scan_pace *pace, uint64_t ts)
{
	size_t low = 0, high = pace->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pace->rows[middle].ts < ts)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_of(const struct scan_row *row, const struct scan_cursor *cursor)
{
	return !row->direct && !row->compacts && !row->near && row->node == cursor->node &&
	       (cursor->class_zone < 0 || row->class_zone == cursor->class_zone);
}

void scan_begin(struct scan_cursor *cursor, int node, int class_zone)
{
	*cursor = (struct scan_cursor){
		.next = UNPLACED, .now = UNPLACED, .node = node, .class_zone = class_zone};
}

/* The next scan of the cursor, which moves past it; NULL after the last one. */
static const struct scan_row *next_of(const struct scan_pace *pace, struct scan_cursor *cursor)
{
	while (cursor->next < pace->nr) {
		const struct scan_row *row = &pace->rows[cursor->next++];

		if (is_of(row, cursor))
			return row;
	}
	return NULL;
}

const struct scan_row *scan_from(const struct scan_pace *pace, int node, uint64_t ts)
{
	struct scan_cursor any = {.next = first_from(pace, ts), .node = node, .class_zone = -1};

	return next_of(pace, &any);
}

/* Place a cursor at the last scans of its node. */
static void go_back(const struct scan_pace *pace, struct scan_cursor *cursor)
{
	int found = 0;

	while (found < REPEATED && cursor->next)
		found += is_of(&pace->rows[--cursor->next], cursor);
}

/* Move the cursor's `now` on to `ts`, which is not before that of the last call. */
static void find_now(const struct scan_pace *pace, struct scan_cursor *cursor, uint64_t ts)
{
	if (cursor->now == UNPLACED)
		cursor->now = first_from(pace, ts);
	while (cursor->now < pace->nr &&
	       (pace->rows[cursor->now].ts < ts || !is_of(&pace->rows[cursor->now], cursor)))
		cursor->now++;
}

/* Whether the scan at the cursor's `now` has begun at `ts`. */
static bool runs_now(const struct scan_pace *pace, const struct scan_cursor *cursor, uint64_t ts)
{
	const struct scan_row *row;

	if (cursor->now >= pace->nr)
		return false;
	row = &pace->rows[cursor->now];
	return row->ts - ts <= row->ns;
}

const struct scan_row *scan_next(const struct scan_pace *pace, struct scan_cursor *cursor,
				 uint64_t ts)
{
	const struct scan_row *row;

	find_now(pace, cursor, ts);
	if (cursor->next == UNPLACED || runs_now(pace, cursor, ts))
		cursor->next = cursor->now;
	row = next_of(pace, cursor);
	if (!row && cursor->class_zone >= 0) {
		scan_begin(cursor, cursor->node, -1);
		return scan_next(pace, cursor, ts);
	}
	if (!row) {
		go_back(pace, cursor);
		row = next_of(pace, cursor);
	}
	return row ? row : &all_at_once;
}

static bool is_like(const struct scan_row *row, const struct scan_row *wanted)
{
	return row->direct == wanted->direct && row->compacts == wanted->compacts &&
	       row->costly == wanted->costly && row->near == wanted->near &&
	       (!row->near || row->node == wanted->node);
}

/* The first row like `wanted` from `ts` on, else the last before; NULL if there is none. */
static const struct scan_row *nearest(const struct scan_pace *pace, uint64_t ts,
				      const struct scan_row *wanted)
{
	size_t from = first_from(pace, ts), i;

	for (i = from; i < pace->nr && !is_like(&pace->rows[i], wanted);)
		i++;
	if (i < pace->nr)
		return &pace->rows[i];
	for (i = from; i && !is_like(&pace->rows[i - 1], wanted);)
		i--;
	return i ? &pace->rows[i - 1] : NULL;
}

const struct scan_row *scan_direct(const struct scan_pace *pace, uint64_t ts, bool costly)
{
	const struct scan_row wanted = {.direct = true, .costly = costly};
	const struct scan_row *row = nearest(pace, ts, &wanted);

	return row ? row : &all_at_once;
}

const struct scan_row *scan_near(const struct scan_pace *pace, uint64_t ts, int node)
{
	const struct scan_row wanted = {.near = true, .node = (uint16_t)node};

	return nearest(pace, ts, &wanted);
}

bool scan_frees(const struct scan_pace *pace, uint64_t ts, const struct scan_row *direct)
{
	const struct scan_row kswapd = {0};
	const struct scan_row *row;

	if (direct->direct)
		return true;
	row = nearest(pace, ts, &kswapd);
	return row && row->freed;
}

const struct scan_row *scan_compaction(const struct scan_pace *pace, uint64_t ts, bool direct)
{
	static const struct scan_row unknown = {.scanned = 2048, .freed = 2048};
	const struct scan_row wanted = {.compacts = true, .direct = direct};
	const struct scan_row other = {.compacts = true, .direct = !direct};
	const struct scan_row *row = nearest(pace, ts, &wanted);

	if (!row)
		row = nearest(pace, ts, &other);
	return row ? row : &unknown;
}
