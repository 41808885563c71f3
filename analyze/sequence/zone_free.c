/* SPDX-License-Identifier: Apache-2.0 */
/* zone_free.c - free pages of each zone at every event that changes them. */
#include "zone_free.h"

#include "batch.h"
#include "last_kind.h"
#include "unseen_targets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 20, CPUS = 1 << 16, PIECE = 1 << 10 };

/* What the count of a place is. */
struct place {
	int64_t free;
	uint32_t number;   /* of the reading it goes on from; 0: none yet */
	bool has_readings; /* also later ones */
	/* The last row. */
	uint64_t last_ts;
	int64_t last_free;
	uint32_t last_number;
	bool last_reading;
	bool has_last;
	uint32_t changes; /* without a row */
	/* The lowest count since the reading, of those without a row. */
	uint64_t lowest_ts;
	int64_t lowest_free;
	bool has_lowest;
};

/* What an event of a group of the batch does. */
struct move {
	int64_t pages; /* that the zone of its page gains */
	bool depends;  /* it depends on the event, or on others */
};

/* The last alloc_zone_locked or alloc_extfrag of a CPU. */
struct taken {
	uint64_t pfn;
	bool locked;
	bool has_pfn;
};

struct zone_free {
	struct sequence_kinds kinds;
	struct zone_free_input input;
	struct place *places;
	int64_t *errors;                    /* by number */
	uint8_t *has_error;                 /* bitmap */
	struct last_kinds *blocks;          /* NULL unless input.captures */
	struct unseen_targets *targets;     /* NULL unless input.unseen */
	size_t reading, moment, event, row; /* the next ones; `row`: of the compaction batch */
	uint64_t failed_ts;
	bool failed;       /* a request failed at failed_ts, without rows so far */
	size_t next_place; /* of the rows of a moment, or of the end */
	bool locked, counted;
	struct taken taken[CPUS];
	struct move moves[GROUPS_MOST]; /* by group of the batch */
	uint32_t acting[PIECE];         /* events of a piece of the batch */
};

/* The numbers of a damaged tape may be too large: they wrap. */
static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int open_blocks(struct zone_free *z, size_t most)
{
	const struct zone_free_input *in = &z->input;

	if (in->unseen) {
		z->targets = unseen_targets_new();
		if (!z->targets)
			return -ENOMEM;
	}
	if (!in->captures)
		return 0;
	z->blocks = last_kinds_new(most);
	if (!z->blocks)
		return -ENOMEM;
	for (size_t i = 0; i < in->nr_listed; i++) {
		if (in->listed_order[i] < ORDERS &&
		    last_kinds_put(z->blocks, in->listed_pfn[i], in->listed_order[i], LAST_LISTED) <
			    0)
			return -ENOMEM;
	}
	return 0;
}

int zone_free_open(struct zone_free **out, struct sequence_kinds kinds,
		   const struct zone_free_input *input, size_t most)
{
	struct zone_free *z = calloc(1, sizeof(*z));

	if (!z)
		return -ENOMEM;
	z->kinds = kinds;
	z->input = *input;
	z->places = calloc(input->nr_places + 1, sizeof(*z->places));
	z->errors = calloc(input->nr_readings + 1, sizeof(*z->errors));
	z->has_error = calloc(input->nr_readings / 8 + 1, 1);
	if (!z->places || !z->errors || !z->has_error || open_blocks(z, most) < 0) {
		zone_free_close(z);
		return -ENOMEM;
	}
	for (size_t i = 0; i < input->nr_readings; i++)
		z->places[input->reading_place[i]].has_readings = true;
	*out = z;
	return 0;
}

void zone_free_close(struct zone_free *z)
{
	if (!z)
		return;
	last_kinds_free(z->blocks);
	unseen_targets_free(z->targets);
	free(z->places);
	free(z->errors);
	free(z->has_error);
	free(z);
}

static void note_last(struct place *p, uint64_t ts, bool reading)
{
	p->last_ts = ts;
	p->last_free = p->free;
	p->last_number = p->number;
	p->last_reading = reading;
	p->has_last = true;
}

/* A row of the place as it is now, without the row before. */
static size_t put_state(const struct zone_free *z, struct zone_free_out *out, size_t at,
			uint32_t place, uint64_t ts, enum zone_free_rows why)
{
	const struct place *p = &z->places[place];

	out->why[at] = (uint8_t)why;
	out->ts[at] = ts;
	out->free[at] = p->free;
	out->place[at] = place;
	out->number[at] = p->number;
	out->changes[at] = 1;
	out->before_ts[at] = 0;
	out->before_free[at] = 0;
	out->before_number[at] = 0;
	return at + 1;
}

/* A row of the changes, or of the low counts. */
static size_t put_row(const struct zone_free *z, struct zone_free_out *out, size_t at,
		      uint32_t place, uint64_t ts, bool reading)
{
	struct place *p = &z->places[place];

	put_state(z, out, at, place, ts, z->input.rows & (ROWS_CHANGES | ROWS_LOW));
	out->changes[at] = p->changes + 1;
	out->before_ts[at] = p->last_ts;
	out->before_free[at] = p->last_free;
	out->before_number[at] = p->last_number;
	if (reading)
		set_valid(out->reading, at);
	if (p->last_reading)
		set_valid(out->before_reading, at);
	if (p->has_last)
		set_valid(out->has_before, at);
	p->changes = 0;
	note_last(p, ts, reading);
	return at + 1;
}

/* The same if the count is low; otherwise notes the lowest. */
static size_t put_if_low(const struct zone_free *z, struct zone_free_out *out, size_t at,
			 uint32_t place, uint64_t ts)
{
	struct place *p = &z->places[place];
	int64_t low = z->input.low[place];

	if (p->free < low || (p->has_last && p->last_free < low))
		return put_row(z, out, at, place, ts, false);
	if (!p->has_lowest || p->free < p->lowest_free) {
		p->lowest_ts = ts;
		p->lowest_free = p->free;
		p->has_lowest = true;
	}
	p->changes++;
	note_last(p, ts, false);
	return at;
}

/* The row of the lowest count since the reading, if it has none. */
static size_t put_lowest(const struct zone_free *z, struct zone_free_out *out, size_t at,
			 uint32_t place)
{
	struct place *p = &z->places[place];

	if (!p->has_lowest)
		return at;
	put_state(z, out, at, place, p->lowest_ts, ROWS_LOW);
	out->free[at] = p->lowest_free;
	out->changes[at] = p->changes;
	p->changes = 0;
	p->has_lowest = false;
	return at + 1;
}

/* The places whose range has the page gain so many pages. Returns the number of rows after it. */
static size_t change(struct zone_free *z, struct zone_free_out *out, size_t at, uint64_t ts,
		     uint64_t pfn, int64_t pages)
{
	for (size_t i = 0; i < z->input.nr_ranges; i++) {
		const struct zone_free_input *in = &z->input;
		struct place *p = &z->places[in->range_place[i]];

		if (pfn < in->range_start[i] || pfn >= in->range_end[i])
			continue;
		z->counted |= p->has_readings;
		if (!p->number)
			continue;
		p->free = plus(p->free, pages);
		if (z->input.rows & ROWS_CHANGES)
			at = put_row(z, out, at, in->range_place[i], ts, false);
		else if (z->input.rows & ROWS_LOW)
			at = put_if_low(z, out, at, in->range_place[i], ts);
	}
	return at;
}

static size_t read_reading(struct zone_free *z, struct zone_free_out *out, size_t at)
{
	const struct zone_free_input *in = &z->input;
	size_t i = z->reading++;
	struct place *p = &z->places[in->reading_place[i]];

	at = put_lowest(z, out, at, in->reading_place[i]);
	if (p->number) {
		z->errors[p->number] = minus(p->free, in->reading_free[i]);
		set_valid(z->has_error, p->number);
	}
	p->free = in->reading_free[i];
	p->number = (uint32_t)z->reading;
	if (in->rows & (ROWS_CHANGES | ROWS_LOW))
		at = put_row(z, out, at, in->reading_place[i], in->reading_ts[i], true);
	return at;
}

/* Whether the block, which a request gets, was on no list. */
static bool is_captured(const struct zone_free *z, int order, enum last_kind last)
{
	if (!z->input.has_lists[order])
		return last != LAST_TAKEN;
	if (last == LAST_NONE)
		return z->input.exact_start;
	return last == LAST_ALLOC || last == LAST_DRAIN;
}

/* Notes the event of a block; 1 for an allocation that captured it, -ENOMEM. */
static int follow_block(struct zone_free *z, const struct sequence_events *e, size_t i)
{
	const struct sequence_kinds *k = &z->kinds;
	uint16_t group = e->group[i];
	uint8_t kind = e->kind[group], order = e->page_order[group];
	enum last_kind now = LAST_TAKEN;
	int found;

	if (kind == k->alloc)
		now = LAST_ALLOC;
	else if (kind == k->free)
		now = LAST_FREE;
	else if (kind == k->pcpu_drain)
		now = LAST_DRAIN;
	found = last_kinds_put(z->blocks, e->pfn[i], order, now);
	if (found < 0)
		return found;
	return now == LAST_ALLOC && is_captured(z, order, (enum last_kind)found);
}

/* Whether the fallback takes a page without alloc_zone_locked; notes either event of the CPU. */
static bool is_alone(struct zone_free *z, const struct sequence_events *e, size_t i)
{
	struct taken *last = &z->taken[e->cpu[e->group[i]]];
	bool has_pfn = is_valid(e->pfn_valid, i);
	bool locked = e->kind[e->group[i]] != z->input.extfrag;
	bool known = last->locked && last->has_pfn && has_pfn && last->pfn == e->pfn[i];

	*last = (struct taken){has_pfn ? e->pfn[i] : 0, locked, has_pfn};
	return !locked && !known;
}

static bool has_size(const struct sequence_events *e, size_t group)
{
	return is_valid(e->page_order_valid, group) && e->page_order[group] < ORDERS;
}

static struct move move_of(const struct zone_free *z, const struct sequence_events *e, size_t group)
{
	const struct zone_free_input *in = &z->input;
	const struct sequence_kinds *k = &z->kinds;
	uint8_t kind = e->kind[group], order = e->page_order[group];
	bool locked = kind == k->alloc_zone_locked;
	struct move move = {0};

	if (kind == k->free_batched)
		return move;
	if (has_size(e, group)) {
		int64_t pages = (int64_t)1 << order;

		if (locked)
			move.pages = -pages;
		else if (kind == k->pcpu_drain || (kind == k->free && !in->has_lists[order]))
			move.pages = pages;
	}
	move.depends = (in->fallback_is_page && (locked || kind == in->extfrag)) ||
		       (z->blocks && has_size(e, group) && order) || (locked && !move.pages) ||
		       (kind == k->alloc && e->pfn_valid);
	return move;
}

/* The pages that the zone gains by an event of which that depends on more than its group. -ENOMEM.
 */
static int find_move(struct zone_free *z, const struct sequence_events *e, size_t i, int64_t *pages)
{
	uint16_t group = e->group[i];
	uint8_t kind = e->kind[group];
	bool locked = kind == z->kinds.alloc_zone_locked, extfrag = kind == z->input.extfrag;
	bool has_pfn = is_valid(e->pfn_valid, i), takes = false;

	z->locked |= locked;
	if (z->input.fallback_is_page && (locked || extfrag))
		takes = is_alone(z, e, i);
	if (!has_size(e, group))
		return 0;
	if (z->input.rows & ROWS_FAILURES && kind == z->kinds.alloc && !has_pfn) {
		z->failed = true;
		z->failed_ts = e->ts[i];
	}
	if (z->blocks && e->page_order[group] && has_pfn) {
		int captured = follow_block(z, e, i);

		if (captured < 0)
			return captured;
		takes = takes || captured;
	}
	if (takes)
		*pages = -((int64_t)1 << e->page_order[group]);
	return 0;
}

/* The next events up to a time that may do something, in z->acting; their number. `end`: the event
 * after them. */
static size_t find_acting(struct zone_free *z, const struct sequence_events *e, uint64_t last,
			  size_t *end)
{
	size_t nr = 0, i = z->event, most = e->nr - i < PIECE ? e->nr : i + PIECE;

	for (; i < most && e->ts[i] <= last; i++) {
		const struct move *move = &z->moves[e->group[i]];

		z->acting[nr] = (uint32_t)i;
		nr += move->depends | (move->pages != 0);
	}
	*end = i;
	return nr;
}

/* Reads events up to that time, as far as there is room for rows, and up to the instant at which a
 * request fails. */
static long read_events(struct zone_free *z, const struct sequence_events *e, uint64_t last,
			struct zone_free_out *out, size_t at, size_t most)
{
	size_t end, nr = find_acting(z, e, last, &end);

	for (size_t k = 0; k < nr; k++) {
		size_t i = z->acting[k];
		const struct move *move = &z->moves[e->group[i]];
		int64_t pages = move->pages;

		if ((z->failed && e->ts[i] > z->failed_ts) || at + most > out->room) {
			end = i;
			break;
		}
		if (move->depends && find_move(z, e, i, &pages) < 0)
			return -ENOMEM;
		z->locked |= move->pages < 0;
		if (pages && is_valid(e->pfn_valid, i))
			at = change(z, out, at, e->ts[i], e->pfn[i], pages);
	}
	z->event = end;
	return (long)at;
}

/* Compaction isolates targets; those without an event show when it has moved more pages. */
static long read_compaction(struct zone_free *z, const struct zone_free_compaction *c,
			    struct zone_free_out *out, size_t at)
{
	const struct zone_free_input *in = &z->input;
	size_t i = z->row++;
	bool isolates = c->kind[i] == in->isolate_freepages;
	int64_t taken = VALUE_OR(c, nr_taken, i, 0);
	struct unseen_pages unseen = {0};

	if (z->targets && (isolates || c->kind[i] == in->begin || c->kind[i] == in->migratepages)) {
		bool moves = c->kind[i] == in->migratepages;
		int64_t moved = VALUE_OR(c, nr_migrated, i, 0);
		struct unseen_row row = {
			.pid = c->pid[i],
			.begins = c->kind[i] == in->begin,
			.pfn = c->start_pfn[i],
			.has_pfn = is_valid(c->start_pfn_valid, i),
			.short_by = moves ? moved : minus(0, taken),
		};

		if (unseen_targets_read(z->targets, &row, &unseen) < 0)
			return -ENOMEM;
	}
	if ((isolates || c->kind[i] == in->fast_isolate_freepages) && taken > 0 &&
	    is_valid(c->start_pfn_valid, i))
		at = change(z, out, at, c->ts[i], c->start_pfn[i], -taken);
	if (unseen.pages > 0)
		at = change(z, out, at, c->ts[i], unseen.pfn, -unseen.pages);
	return (long)at;
}

/* Rows of every place for the moments before `ts`; whether there was room for all. */
static bool put_moments(struct zone_free *z, uint64_t ts, bool end, struct zone_free_out *out,
			size_t *at)
{
	const struct zone_free_input *in = &z->input;

	while (z->failed || (in->rows & ROWS_MOMENTS && z->moment < in->nr_moments)) {
		uint64_t moment = z->failed ? z->failed_ts : in->moments[z->moment];
		enum zone_free_rows why = z->failed ? ROWS_FAILURES : ROWS_MOMENTS;

		if (!end && moment >= ts)
			break;
		for (; z->next_place < in->nr_places; z->next_place++) {
			if (!z->places[z->next_place].number)
				continue;
			if (*at == out->room)
				return false;
			*at = put_state(z, out, *at, (uint32_t)z->next_place, moment, why);
		}
		z->next_place = 0;
		z->moment += !z->failed;
		z->failed = false;
	}
	return true;
}

/* At the end: the lowest counts since the last readings, as far as there is room. */
static size_t put_last(struct zone_free *z, struct zone_free_out *out, size_t at)
{
	for (; z->next_place < z->input.nr_places && at < out->room; z->next_place++)
		at = put_lowest(z, out, at, (uint32_t)z->next_place);
	return at;
}

/* The last time of the events that count and come before every other input. */
static uint64_t until(const struct zone_free *z, const struct zone_free_compaction *c)
{
	const struct zone_free_input *in = &z->input;
	uint64_t end = z->kinds.end_ts - 1;
	uint64_t ts = z->row < c->nr && c->ts[z->row] < end ? c->ts[z->row] : end;

	if (z->reading < in->nr_readings && in->reading_ts[z->reading] <= ts)
		ts = in->reading_ts[z->reading] - 1;
	if (in->rows & ROWS_MOMENTS && z->moment < in->nr_moments && in->moments[z->moment] < ts)
		ts = in->moments[z->moment];
	return ts;
}

long zone_free_read(struct zone_free *z, const struct sequence_events *e,
		    const struct zone_free_compaction *c, struct zone_free_out *out)
{
	/* One input changes each range at most twice; a reading gives two rows. */
	size_t most = 2 * z->input.nr_ranges + 2;
	size_t at = out->nr;

	for (size_t i = 0; z->event == 0 && i < e->nr_groups; i++)
		z->moves[i] = move_of(z, e, i);
	while (at + most <= out->room) {
		bool reading = z->reading < z->input.nr_readings, event = z->event < e->nr;
		bool row = z->row < c->nr;
		uint64_t ts = UINT64_MAX;
		long found;

		if ((!event && e->nr) || (!row && c->nr))
			break; /* the caller has more of them */
		if (event && !is_in_span(&z->kinds, e->ts[z->event])) {
			z->event++;
			continue;
		}
		if (row && !is_in_span(&z->kinds, c->ts[z->row])) {
			z->row++;
			continue;
		}
		if (row)
			ts = c->ts[z->row];
		if (event && e->ts[z->event] <= ts)
			ts = e->ts[z->event];
		else
			event = false;
		if (reading && z->input.reading_ts[z->reading] <= ts)
			ts = z->input.reading_ts[z->reading];
		else
			reading = false;
		if (!put_moments(z, ts, !reading && !event && !row, out, &at))
			break;
		if (at + most > out->room)
			break;
		if (reading)
			found = (long)read_reading(z, out, at);
		else if (event)
			found = read_events(z, e, until(z, c), out, at, most);
		else if (row)
			found = read_compaction(z, c, out, at);
		else
			return (long)put_last(z, out, at);
		if (found < 0)
			return found;
		at = (size_t)found;
	}
	return (long)at;
}

void zone_free_next_events(struct zone_free *z)
{
	z->event = 0;
}

void zone_free_next_compaction(struct zone_free *z)
{
	z->row = 0;
}

bool zone_free_wants_events(const struct zone_free *z, const struct sequence_events *events)
{
	return events->nr && z->event == events->nr;
}

bool zone_free_wants_compaction(const struct zone_free *z,
				const struct zone_free_compaction *compaction)
{
	return compaction->nr && z->row == compaction->nr;
}

struct zone_free_result zone_free_result(const struct zone_free *z)
{
	return (struct zone_free_result){z->errors, z->has_error, z->locked, z->counted};
}
