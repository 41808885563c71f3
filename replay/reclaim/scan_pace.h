/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan_pace.h - how fast recorded reclaim scanned the LRU lists, and what it found (table scan).
 *
 * A pass of the model's kswapd takes the scans that the record has from that time on: their
 * duration, their share of freed pages, and the size of the node's lists. While the record's kswapd
 * scans as well, it takes the scan of that time, else the next ones, one by one. Only pages of the
 * zones that a pass reclaims count (lruvec_lru_size, isolate_lru_folios), so it takes scans of
 * passes for the same zones, as long as the record has some. At the last priority it also gives up
 * where the record's kswapd did: the lists held no more for it. A direct reclaim takes the next
 * recorded one of its kind of order, a run of compaction the one that the record has at that time
 * or next.
 */
#pragma once

#include "tables.h"
#include "model/model.h"

struct scan_row {
	uint64_t ts;             /* of its end */
	uint64_t ns;             /* duration */
	uint64_t scanned, freed; /* pages; a kswapd's pass over empty lists scanned none */
	uint64_t lru_pages;      /* pages of the zones on the node's lists; 0: unknown */
	uint32_t pass;           /* number of the kswapd's pass */
	uint16_t node;           /* of the tape */
	uint16_t cpu;            /* of the kswapd */
	uint8_t class_zone;      /* highest zone with memory that the pass reclaims */
	bool spent;              /* the pass went down to priority 1; the run missed its goal */
	bool direct, costly;     /* by an allocation; for an order above PCP_MAX_ORDER */
	bool compacts;           /* a run of compaction: `scanned` moved or failed, `freed` moved */
	bool near;               /* a try to reclaim on a near node (zone_reclaim_mode) */
};

struct scan_pace {
	struct scan_row *rows; /* by time */
	size_t nr, room;
	bool generations; /* the record's kswapd used the multi-generational LRU */
};

/* The scans that a pass goes through. */
struct scan_cursor {
	size_t next;    /* row of the next scan at the earliest */
	size_t now;     /* its first row that ends from the time of the last call on */
	int node;       /* of the tape */
	int class_zone; /* highest zone with memory of the pass; -1: the record has no such scans */
};

/* Load rows of the table. -EINVAL or -ENOMEM. */
int scan_pace_load(struct scan_pace *pace, struct arrays *arrays,
		   const struct scan_columns *columns, size_t rows, struct error *err);

/* The first scan of the kswapd of a node that ends from `ts` on, or NULL. */
const struct scan_row *scan_from(const struct scan_pace *pace, int node, uint64_t ts);
/* A pass of the kswapd of a node begins, up to its zone `class_zone`, which has memory. */
void scan_begin(struct scan_cursor *cursor, int node, int class_zone);
/*
 * The next scan of the pass, which begins at `ts`: the recorded one for the zones of the pass that
 * runs at `ts`, else the one after the last that the pass took, else, for the first, the one that
 * ends first from `ts` on. `ts` never goes back. After the last one for these zones, those for any
 * zones from `ts` on: their pace and yield are of that time, those of earlier scans are not. After
 * the last one of the node, its last 16 scans again and again. A record without scans gives one
 * that frees every page at once.
 */
const struct scan_row *scan_next(const struct scan_pace *pace, struct scan_cursor *cursor,
				 uint64_t ts);

/* The first direct reclaim from `ts` on, for costly orders or others, else the last before. */
const struct scan_row *scan_direct(const struct scan_pace *pace, uint64_t ts, bool costly);

/*
 * The first try to reclaim on that node of the tape (zone_reclaim_mode) that ends from `ts` on,
 * else the last before; NULL if the record has none.
 */
const struct scan_row *scan_near(const struct scan_pace *pace, uint64_t ts, int node);

/*
 * Whether the record shows that reclaim freed pages around `ts`: by its direct reclaims, else, if
 * it has none, by the next scan of a kswapd, else the last one before. `direct`: the row of
 * scan_direct().
 */
bool scan_frees(const struct scan_pace *pace, uint64_t ts, const struct scan_row *direct);

/*
 * The first run of compaction that ends from `ts` on, of kcompactd or `direct`, else the last
 * before. Without one of that kind the other kind serves; without either, a run moves 2048 pages in
 * no time.
 */
const struct scan_row *scan_compaction(const struct scan_pace *pace, uint64_t ts, bool direct);
