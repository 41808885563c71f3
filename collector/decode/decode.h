/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - decodes raw ftrace records into rows of a tape.
 *
 *   struct decoder   knows every event format of one traced kernel and holds the
 *                    batches being filled. Formats are looked up by field name
 *                    once; a record costs a few loads and stores, no allocation.
 *
 * schemas/{event,reclaim,compaction,lock_event}.toml map tracepoints to tables and their fields to
 * columns. A tracepoint without a table is only counted. A kernel stack becomes a row of
 * `stack` if the record just before it, of the same CPU and thread, is a page event. Records
 * must come in the order of the tape: (ts, cpu, position in the ring). Traces of either byte
 * order and word size are read.
 *
 * Only one thread at a time may use a decoder; exported batches are free for any thread.
 */
#pragma once

#include "batch.h"
#include "stacks.h"

#include <event-parse.h>
#include <stddef.h>
#include <stdint.h>

struct decoder;

enum { DECODER_CPUS = 1 << 16 }; /* CPUs have lower numbers: `cpu` of a tape has 16 bits */

enum { MAX_ZONE_LOCKS = 320 }; /* 64 nodes of five zones */

/* The address of a zone's lock, with the zone's number on a tape. */
struct zone_lock_address {
	uint64_t address;
	uint16_t node;
	uint8_t zone;
};

/* Addresses in the traced kernel, which some of its events name. */
struct kernel_addresses {
	/*
	 * Of vmstat_update(); starts of other work items are dropped. 0: the decoder looks it up in
	 * the symbols of `tep`, if any.
	 */
	uint64_t vmstat_update;
	/* Events of other locks are dropped. With nr 0 such events are counted, not stored. */
	int nr_zone_locks;
	struct zone_lock_address zone_locks[MAX_ZONE_LOCKS];
};

/* Facts on the traced kernel that the formats lack; all zero if unknown. */
struct decoder_names {
	/*
	 * The kernel's names of its migratetypes, in its own numeric order (the columns
	 * of /proc/pagetypeinfo: "Unmovable", "Movable", ...). With nr 0 the
	 * numbers of 4.4 and later without CMA are assumed.
	 */
	int nr_migratetypes;
	const char *const *migratetypes;

	struct kernel_addresses addresses;
};

/*
 * `tep` must hold the formats of the traced kernel and outlive the decoder.
 * `rows` is the size of one event batch. A format that lacks a field that the tape needs does not
 * fail: a file has formats of events that it does not contain. Its events are counted, not stored
 * (see decoder_count). -ENOMEM, -EINVAL (no format at all).
 */
int decoder_new(struct decoder **out, struct tep_handle *tep, const struct decoder_names *names,
		size_t rows, struct error *err);
void decoder_free(struct decoder *d);

/*
 * For a caller that chose the events: -EINVAL if the events of a format cannot be stored. The
 * message names the event and the field.
 */
int decoder_check(const struct decoder *d, struct error *err);

/*
 * Decode one record of `size` bytes (its common fields included); `cpu` is below DECODER_CPUS.
 * Returns false if a batch is full: take the batches out with decoder_flush and offer the same
 * record again.
 */
bool decoder_add(struct decoder *d, int cpu, uint64_t ts, const void *record, int size);

/* Records of this CPU are missing here: a following stack belongs to no earlier record. */
void decoder_gap(struct decoder *d, int cpu);

/*
 * Take out one batch that is full (or, with `all`, that has any rows), or NULL if there is none.
 * Call batch_export on it before the next call here: until then it looks idle. The decoder
 * continues with an idle batch of the same table, or with a new one if the consumer holds all.
 * Limit the waiting batches, because each costs memory. *ret is 0 or -ENOMEM (NULL is returned,
 * nothing is lost).
 */
struct batch *decoder_flush(struct decoder *d, bool all, int *ret);

/*
 * Begin a new segment: reset `at`, the counts and the pids. All batches must have been
 * taken out.
 */
void decoder_restart(struct decoder *d);

/*
 * The decoder's state after the records so far (rows of `event`, counts, pids), as `nr` words
 * for another decoder with the same formats; the caller frees. NULL: no memory.
 */
uint64_t *decoder_save(const struct decoder *d, size_t *nr);

/* Restore such a state. False if the words are not from decoder_save, or from other formats. */
bool decoder_restore(struct decoder *d, const uint64_t *words, size_t nr);

/* A row of the table `tracepoint`. */
struct decoder_count {
	const char *system, *name;
	const char *stored;     /* table of its events, or NULL if they are only counted */
	const char *unreadable; /* why a table lacks them: the field; NULL if none does */
	uint64_t events;
};

/* Counts of every tracepoint of this segment, `nr` of them; valid until the next call. */
const struct decoder_count *decoder_counts(struct decoder *d, size_t *nr);

/* Every pid of this segment's records, ascending, `nr` of them; the caller frees. NULL: no memory.
 */
int32_t *decoder_pids(const struct decoder *d, size_t *nr);

/* The traced kernel's name of bit `bit` of its gfp_t, as "__GFP_IO"; NULL if it has none. */
const char *decoder_gfp_name(const struct decoder *d, int bit);

/* The traced kernel's pageblock_order, or -1 if no event format contains it. */
int decoder_pageblock_order(const struct decoder *d);

/* The stacks that rows of `stack` number; NULL where `tep` has no ftrace:kernel_stack. */
struct stacks *decoder_stacks(const struct decoder *d);

/* Records that were shorter than their format or whose type no format describes. */
uint64_t decoder_bad_records(const struct decoder *d);
