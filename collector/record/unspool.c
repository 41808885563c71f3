// SPDX-License-Identifier: Apache-2.0
#include "unspool.h"
#include "unspool_checkpoint.h"

#include "input/thread.h"
#include "ring/subbuf.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
	LOOK_MS = 100,  /* between looks into the spools */
	IDLE_MS = 1000, /* ... where the last look found nothing; the readers look as rarely */
	PROMPT_MS = 20, /* ... when it is urgent */
	HURRY_MB = 6 * 1024,
	FLUSH_S = 1, /* longest wait of a row for its batch to fill */
	CHECKPOINT_S = 4,
};

/*
 * Losses.
 */

/* Events of one CPU that the kernel counts as lost, at an unknown time. */
static int lose_somewhere(struct unspool *u, int cpu, uint64_t events, struct error *err)
{
	struct gap gap = {cpu, UNKNOWN_COUNT, UNKNOWN_COUNT, events};

	return events ? source_lose(&u->source, gap, err) : 0;
}

/* The events that were lost just before the cursor's record. */
static int lose_missed(struct unspool *u, struct cursor *c, uint64_t to_ts, struct error *err)
{
	struct gap gap = {c->cpu, c->row.last_ts, to_ts, c->missed};

	c->missed = 0;
	return source_lose(&u->source, gap, err);
}

/*
 * Events were lost before and after the cut at `limit`, and the kernel has one number for both: the
 * next segment gets it. This one gets a gap of unknown size, so that it is not taken for complete.
 */
static int lose_until_cut(struct unspool *u, const struct cursor *c, struct error *err)
{
	struct gap gap = {c->cpu, c->row.last_ts, atomic_load(&u->limit), UNKNOWN_COUNT};

	return source_lose(&u->source, gap, err);
}

/* The counts of a ring only grow, unless a checkpoint is of another recording. */
static uint64_t since(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

/*
 * The gaps of one CPU must add up to the kernel's count of overwritten events. A full page has no
 * room for the size of its gap; a single gap without a size gets the remainder. The remainder of
 * several is a row of its own, without times. Before the end of the `last` segment the kernel's
 * counts are ahead, so the remainder may have been lost shortly after the cut, and no gap gets it.
 */
static int settle_overrun(struct unspool *u, struct cursor *c, uint64_t overrun, bool last,
			  struct error *err)
{
	uint64_t known = 0, rest, counted = since(c->before.overrun, overrun);
	struct gap *unknown = NULL;
	bool exact = last && !c->before_unknown;
	int nr_unknown = 0;

	for (size_t i = 0; i < u->source.nr_gaps; i++) {
		struct gap *gap = &u->source.gaps[i];

		if (gap->cpu != c->cpu)
			continue;
		if (gap->events == UNKNOWN_COUNT) {
			unknown = gap;
			nr_unknown++;
		} else {
			known += gap->events;
		}
	}
	rest = (nr_unknown || last) && counted > known ? counted - known : 0;
	c->row.overrun = exact ? counted : known + rest;
	c->before.overrun += known + rest;
	c->before_unknown = c->before_unknown || nr_unknown;
	if (nr_unknown == 1 && exact && rest) /* else a part of the spool is damaged */
		unknown->events = rest;
	else
		return lose_somewhere(u, c->cpu, rest, err);
	return 0;
}

static int settle_cpu(struct unspool *u, struct cursor *c, const struct ring_stats *stats,
		      bool last, struct error *err)
{
	uint64_t missing;
	int ret;

	ret = settle_overrun(u, c, stats->overrun, last, err);
	c->row.commit_overrun = since(c->before.commit_overrun, stats->commit_overrun);
	c->row.dropped = since(c->before.dropped, stats->dropped);
	missing = c->row.commit_overrun + c->row.dropped; /* to nested writers, or refused */
	c->before.read += c->row.read;
	if (last) { /* events still in the ring */
		missing += stats->entries;
		if (stats->read > c->before.read)
			missing += stats->read - c->before.read;
	}
	c->before.commit_overrun = stats->commit_overrun;
	c->before.dropped = stats->dropped;
	return ret ? ret : lose_somewhere(u, c->cpu, missing, err);
}

/* A CPU that came online after the start has no cursor. */
static bool has_cursor(const struct unspool *u, int cpu)
{
	for (int i = 0; i < u->nr_cpus; i++)
		if (u->cursors[i].cpu == cpu)
			return true;
	return false;
}

/* Complete the rings and the gaps of a segment. */
static int settle(struct unspool *u, bool last, struct error *err)
{
	struct ring_stats stats;
	int ret = 0;

	for (int i = 0; i < u->nr_cpus && !ret; i++) {
		struct cursor *c = &u->cursors[i];
		struct spool_load load = spool_load(c->spool);

		if (last && c->missed)
			ret = lose_missed(u, c, UNKNOWN_COUNT, err);
		ret = ret ?: u->ring_stats(u, c->cpu, &stats, err);
		if (!ret)
			ret = settle_cpu(u, c, &stats, last, err);
		else if (ret == -ENODATA)
			ret = 0;
		if (!last && c->missed)
			ret = ret ?: lose_until_cut(u, c, err);
		c->row.spool_peak = load.peak_bytes;
		c->row.spool_full = load.full_ns;
		u->source.rings[i] = c->row;
	}
	for (int cpu = 0; last && cpu < u->max_cpus && !ret; cpu++)
		if (!has_cursor(u, cpu) && !u->ring_stats(u, cpu, &stats, NULL))
			ret = lose_somewhere(u, cpu, stats.entries + stats.overrun, err);
	return ret;
}

/*
 * The thread.
 */

/* Sub-buffers put into the spools, and merged, since the start. */
static void progress(const struct unspool *u, uint64_t *written, uint64_t *read)
{
	*written = *read = 0;
	for (int i = 0; i < u->nr_cpus; i++) {
		uint64_t in, out;

		if (!u->cursors[i].spool)
			continue;
		spool_progress(u->cursors[i].spool, &in, &out);
		*written += in;
		*read += out;
	}
}

double unspool_progress(const struct unspool *u)
{
	uint64_t written, read;

	progress(u, &written, &read);
	return written ? (double)read / (double)written : 1;
}

/* Errors are ignored: decoding is correct at any priority. */
static void set_policy(pthread_t thread, int policy)
{
	const struct sched_param none = {0};

	pthread_setschedparam(thread, policy, &none);
}

/* Run only on idle CPUs, until there is hurry. */
static void give_way(struct unspool *u, pthread_t thread)
{
	set_policy(thread, SCHED_IDLE);
	if (atomic_load(&u->urgent) || atomic_load(&u->hurried))
		set_policy(thread, SCHED_OTHER);
}

/*
 * The decoder's way to the disk. On busy CPUs a thread of SCHED_IDLE may stand still for seconds,
 * and with it everybody who waits for a lock of the file or of the file system's journal: the
 * writer.
 */
static void use_disk(void *context, bool begin)
{
	struct unspool *u = context;

	if (atomic_load(&u->urgent) || atomic_load(&u->hurried))
		return;
	if (begin)
		set_policy(pthread_self(), SCHED_OTHER);
	else
		give_way(u, pthread_self());
}

void unspool_urge(struct unspool *u, pthread_t thread)
{
	atomic_store(&u->urgent, true);
	set_policy(thread, SCHED_OTHER);
	unspool_wake(u);
}

void unspool_wake(struct unspool *u)
{
	eventfd_write(u->bell, 1);
}

void unspool_cancel(struct unspool *u)
{
	atomic_store(&u->cancelled, true);
	source_cancel(&u->source);
	unspool_wake(u);
}

/* The owner's thread decides, because on busy CPUs the decoder itself hardly runs. */
void unspool_keep_pace(struct unspool *u, pthread_t thread, const struct spool_use *use)
{
	bool late = use->memory > use->memory_size / 2 || use->file > u->hurry_bytes;
	bool caught_up = use->memory < use->memory_size / 8 * 3 && use->file < u->hurry_bytes / 2;

	if (atomic_load(&u->urgent) || (atomic_load(&u->hurried) ? !caught_up : !late))
		return;
	atomic_store(&u->hurried, late);
	if (late)
		set_policy(thread, SCHED_OTHER);
	else
		give_way(u, thread);
	unspool_wake(u);
}

static void miss(struct cursor *c, uint64_t events)
{
	bool known = events != UNKNOWN_COUNT && c->missed != UNKNOWN_COUNT;

	c->missed = known ? c->missed + events : UNKNOWN_COUNT;
}

/* Load the sub-buffer and find its first record after the checkpoint. */
static int load(struct unspool *u, struct cursor *c, const void *subbuf, unsigned long long *ts,
		struct error *err)
{
	const struct subbuf_layout layout = {
		offsetof(struct subbuf, data),
		__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
	};
	uint64_t taken = c->taken;
	int missed;

	/*
	 * A file may be damaged; sub-buffers from the kernel are trusted. One without a time never
	 * reached the disk, although the header that counts it did: the machine stopped.
	 */
	if (!c->reader && (!((const struct subbuf *)subbuf)->ts ||
			   !subbuf_is_sound(subbuf, spool_slot_bytes(c->spool), layout))) {
		u->source.bad++;
		miss(c, UNKNOWN_COUNT);
		return 0;
	}
	kbuffer_load_subbuffer(c->kbuf, (void *)subbuf);
	c->record = kbuffer_read_event(c->kbuf, ts);
	for (; taken && c->record; taken--)
		c->record = kbuffer_next_event(c->kbuf, ts);
	if (taken)
		return fail(err, EBADMSG, "the spool of cpu %d does not fit its checkpoint",
			    c->cpu);
	missed = kbuffer_missed_events(c->kbuf);
	if (missed && !c->taken)
		miss(c, missed > 0 ? (uint64_t)missed : UNKNOWN_COUNT);
	return 0;
}

/*
 * Find the next record of this CPU: 1, or 0 if its spool is empty for now. Then no record of the
 * CPU before c->complete will follow.
 */
static int next_record(struct unspool *u, struct cursor *c, struct error *err)
{
	unsigned long long ts;
	const void *subbuf;
	int ret;

	if (c->record) {
		c->record = kbuffer_next_event(c->kbuf, &ts);
		c->taken = c->record ? c->taken + 1 : 0;
	}
	while (!c->record) {
		if (atomic_load_explicit(&u->cancelled, memory_order_relaxed))
			return fail(err, ECANCELED, "the recording was closed");
		/* Before the look into the spool. */
		c->complete = c->reader ? reader_watermark(c->reader) : UINT64_MAX;
		ret = spool_pop(c->spool, &subbuf, err);
		if (!ret && c->rest)
			ret = spool_rest_pop(c->rest, &subbuf, err);
		if (ret < 0)
			return ret;
		if (!ret && c->cut)
			miss(c, UNKNOWN_COUNT);
		if (!ret)
			return c->complete == UINT64_MAX && c->reader ? reader_join(c->reader, err)
								      : 0;
		c->popped++;
		ret = load(u, c, subbuf, &ts, err);
		if (ret)
			return ret;
		if (!c->record)
			c->taken = 0;
	}
	/* Time does not go back in a ring, and has an end, unless a file is damaged. */
	ts = ts < SUBBUF_MAX_TS ? ts : SUBBUF_MAX_TS;
	c->ts = ts > c->ts ? ts : c->ts;
	return 1;
}

/* A checkpoint also writes the names of threads. */
static int save(struct unspool *u, struct error *err)
{
	use_disk(u, true);
	tasks_sync(u->tasks);
	use_disk(u, false);
	return unspool_save(u, err);
}

/* Flush at intervals, so that recent rows appear soon even if there are few events. */
static int flush(struct unspool *u, uint64_t ts, struct error *err)
{
	int seconds = u->checkpoints ? CHECKPOINT_S : FLUSH_S, ret;

	u->flush_due = ts + (uint64_t)seconds * 1000000000;
	for (int i = 0; i < u->nr_cpus; i++)
		u->cursors[i].popped = 0;
	if (!u->unflushed)
		return 0;
	u->unflushed = 0;
	ret = source_flush(&u->source, err);
	return ret || !u->checkpoints ? ret : save(u, err);
}

/* Make a checkpoint if half of a spool's memory was read since the last one. */
static bool is_pressed(const struct unspool *u, const struct cursor *c)
{
	return u->checkpoints && !c->taken && c->popped > spool_slots(c->spool) / 2;
}

static int take(struct unspool *u, struct cursor *c, struct error *err)
{
	int size = kbuffer_event_size(c->kbuf), ret = 0;

	if (c->ts >= u->flush_due || is_pressed(u, c))
		ret = flush(u, c->ts, err);
	if (!ret && c->missed)
		ret = lose_missed(u, c, c->ts, err);
	ret = ret ?: source_add(&u->source, c->cpu, c->ts, c->record, size, err);
	if (ret)
		return ret;
	tasks_see(u->tasks, c->record, size);
	u->unflushed++;
	if (!c->taken)
		c->row.bytes += (uint64_t)kbuffer_subbuffer_size(c->kbuf);
	if (!c->row.read++)
		c->row.first_ts = c->ts;
	c->row.last_ts = c->ts;
	return 0;
}

/*
 * Merge as far as possible now: the oldest record is next if no CPU without a record can have an
 * older one. 1: some records were merged, 0: none.
 */
static int merge_some(struct unspool *u, struct error *err)
{
	struct merge *m = &u->merge;
	uint64_t until = UINT64_MAX;
	int ret, merged = 0;

	for (int i = 0; i < u->nr_cpus; i++) {
		struct cursor *c = &u->cursors[i];

		if (c->record)
			continue;
		ret = next_record(u, c, err);
		if (ret < 0)
			return ret;
		if (ret)
			merge_add(m, (size_t)i, c->ts);
		else if (c->complete < until)
			until = c->complete;
	}
	while (m->nr && m->heap[0].ts < until &&
	       m->heap[0].ts <= atomic_load_explicit(&u->limit, memory_order_relaxed)) {
		struct cursor *c = &u->cursors[m->heap[0].source];

		ret = take(u, c, err);
		if (ret)
			return ret;
		merged = 1;
		ret = next_record(u, c, err);
		if (ret < 0)
			return ret;
		if (ret) {
			merge_advance(m, c->ts);
			continue;
		}
		merge_drop(m);
		if (c->complete < until)
			until = c->complete;
	}
	u->until = until;
	return merged;
}

/* Whether all events up to the limit were merged, and nothing else. */
static bool at_limit(const struct unspool *u)
{
	uint64_t limit = atomic_load(&u->limit);

	return limit > 0 && limit < u->until && !(u->merge.nr && u->merge.heap[0].ts <= limit);
}

/* The end of a segment that is not the last. */
static int cut(struct unspool *u, struct error *err)
{
	int ret = settle(u, false, err);

	/* The owner may request the next cut as soon as the reader continues. */
	atomic_store(&u->limit, NO_LIMIT);
	ret = ret ?: source_cut(&u->source, err);
	for (int i = 0; i < u->nr_cpus; i++) {
		struct ring *row = &u->cursors[i].row;

		row->read = row->bytes = 0;
		row->first_ts = row->last_ts = UNKNOWN_COUNT;
	}
	/* The first checkpoint of the next segment's tape. */
	return ret || !u->checkpoints ? ret : save(u, err);
}

/* Until the next look, or unspool_wake. */
static void rest(struct unspool *u, bool merged)
{
	struct pollfd bell = {.fd = u->bell, .events = POLLIN};
	bool awaited = merged || atomic_load(&u->limit) != NO_LIMIT;
	eventfd_t calls;

	poll(&bell, 1, atomic_load(&u->urgent) ? PROMPT_MS : awaited ? LOOK_MS : IDLE_MS);
	if (bell.revents & POLLIN)
		eventfd_read(u->bell, &calls);
}

void *unspool_run(void *arg)
{
	struct unspool *u = arg;
	struct error err;
	int ret = 0;

	pthread_setname_np(pthread_self(), "pagetape-decode");
	tasks_scan_own(u->tasks);
	for (int i = 0; i < u->nr_cpus; i++)
		spool_on_disk_read(u->cursors[i].spool, use_disk, u);
	if (!atomic_load(&u->urgent))
		give_way(u, pthread_self());
	while (!ret) {
		uint64_t ts = monotonic_ns();
		int merged = merge_some(u, &err);

		if (merged < 0) {
			ret = merged;
			break;
		}
		if (at_limit(u)) {
			ret = cut(u, &err);
			continue;
		}
		if (u->until == UINT64_MAX && !u->merge.nr)
			break;
		if (ts >= u->flush_due)
			ret = flush(u, ts, &err);
		rest(u, merged);
	}
	ret = ret ?: settle(u, true, &err);
	ret = ret ?: source_flush(&u->source, &err);
	source_end(&u->source, ret, &err);
	return NULL;
}

/*
 * Set-up.
 */

void unspool_init(struct unspool *u)
{
	*u = (struct unspool){.hurry_bytes = (uint64_t)HURRY_MB << 20};
	u->bell = eventfd(0, EFD_CLOEXEC); /* without it, the thread only looks at intervals */
	source_init(&u->source);
	atomic_init(&u->limit, NO_LIMIT);
}

void unspool_destroy(struct unspool *u)
{
	for (int i = 0; i < u->nr_cpus; i++) {
		spool_free(u->cursors[i].spool);
		spool_rest_free(u->cursors[i].rest);
		kbuffer_free(u->cursors[i].kbuf);
	}
	source_destroy(&u->source);
	free(u->source.rings);
	tep_free(u->source.tep);
	tasks_free(u->tasks);
	free(u->cursors);
	free(u->merge.heap);
	if (u->bell >= 0)
		close(u->bell);
}

int unspool_add(struct unspool *u, int cpu, const char *instance, struct error *err)
{
	struct cursor *cursors = realloc(u->cursors, (size_t)(u->nr_cpus + 1) * sizeof(*cursors));
	struct cursor *c;

	if (!cursors)
		return fail(err, ENOMEM, "no memory for cpu %d", cpu);
	u->cursors = cursors;
	c = &cursors[u->nr_cpus++];
	*c = (struct cursor){.cpu = cpu, .row = ring_unread(cpu, instance)};
	c->row.bytes = c->row.spool_peak = c->row.spool_full = 0;
	c->kbuf = kbuffer_alloc(KBUFFER_LSIZE_SAME_AS_HOST, KBUFFER_ENDIAN_SAME_AS_HOST);
	if (!c->kbuf)
		return fail(err, ENOMEM, "no memory for cpu %d", cpu);
	return 0;
}

int unspool_ready(struct unspool *u, struct error *err)
{
	u->source.rings = calloc((size_t)u->nr_cpus, sizeof(*u->source.rings));
	u->source.nr_rings = (size_t)u->nr_cpus;
	u->merge.heap = calloc((size_t)u->nr_cpus, sizeof(*u->merge.heap));
	if (!u->nr_cpus || !u->source.rings || !u->merge.heap)
		return fail(err, ENOMEM, "no memory for %d cpus", u->nr_cpus);
	return 0;
}
