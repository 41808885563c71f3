// SPDX-License-Identifier: Apache-2.0
/*
 * Perfetto's traces: a row of TracePackets, of which those with the events of a CPU count.
 *
 * A part begins and ends between packets. Within a packet, time does not go back.
 */
#include "foreign_internal.h"
#include "perfetto_events.h"
#include "perfetto_inflate.h"
#include "protobuf.h"
#include "ring/subbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	TRACE_PACKET = 1, /* field of Trace */

	/* TracePacket */
	PACKET_FTRACE_EVENTS = 1,
	PACKET_PROCESS_TREE = 2,
	PACKET_CLOCKS = 6,
	PACKET_FTRACE_STATS = 34,
	PACKET_TRACE_STATS = 35,
	PACKET_SYSTEM_INFO = 45,
	PACKET_COMPRESSED = 50,

	/* FtraceEventBundle */
	BUNDLE_CPU = 1,
	BUNDLE_EVENT = 2,
	BUNDLE_LOST_EVENTS = 3,
	BUNDLE_CLOCK = 5,
	BUNDLE_DESCRIPTOR = 11,

	SCHED_SWITCH = 4, /* field of FtraceEvent */
	UNPACK = 1,       /* the packets are compressed */
};

/* BuiltinClock */
enum { CLOCK_WALL = 1, CLOCK_MONO_RAW = 5, CLOCK_BOOT = 6, CLOCKS };

/* A place in the packet of a stream. */
struct place {
	struct span events; /* the rest of the bundle */
	uint64_t ts;        /* of its last event */
	int cpu;
};

struct perfetto {
	struct perfetto_events *events;
	struct place *places;        /* by stream */
	struct event_values *values; /* by stream */
	uint64_t *counted;           /* by CPU: lost events that the kernel counted at the start */
	uint64_t clocks[CLOCKS];     /* read at one moment, the first one; 0: none */
	char *release, *machine;
	bool has_end;    /* the counts of lost events at the end */
	uint64_t chunks; /* of Perfetto's own buffer that were overwritten or dropped */
};

/* The next packet; false at the end, or where the file is cut or damaged. */
static bool next_packet(struct span *trace, struct span *packet)
{
	struct pb_field field;

	while (pb_next(trace, &field)) {
		if (field.number != TRACE_PACKET || !field.is_bytes) {
			trace->bad = true;
			return false;
		}
		*packet = field.bytes;
		return true;
	}
	return false;
}

/* The bundle of a packet, and its CPU; false: the packet has none. */
static bool find_bundle(struct span packet, struct span *bundle, uint64_t *cpu)
{
	*bundle = pb_bytes(packet, PACKET_FTRACE_EVENTS);
	*cpu = pb_value(*bundle, BUNDLE_CPU);
	return bundle->at && *cpu < DECODER_CPUS;
}

/* The names of the threads in a sched_switch: prev_comm, prev_pid, next_comm, next_pid. */
static int see_switch(struct foreign *f, struct span event, struct error *err)
{
	static const struct {
		uint32_t comm, pid;
	} sides[] = {{1, 2}, {5, 6}};
	int ret = 0;

	for (int side = 0; side < 2 && !ret; side++)
		ret = foreign_see_comm(f, (int32_t)pb_value(event, sides[side].pid),
				       span_words(pb_bytes(event, sides[side].comm)), err);
	return ret;
}

static int see_names(struct foreign *f, struct span event, struct error *err)
{
	struct pb_field field;
	int ret = 0;

	while (!ret && pb_next(&event, &field))
		if (field.number == SCHED_SWITCH && field.is_bytes)
			ret = see_switch(f, field.bytes, err);
	return ret;
}

static const char *clock_name(uint64_t number)
{
	static const char *const names[] = {"boot", NULL, "global", "local", "mono_raw"};

	return number < sizeof(names) / sizeof(names[0]) ? names[number] : NULL;
}

/* The events of one CPU, from `begin` to `end` in the file. */
static int see_bundle(struct foreign *f, struct span bundle, uint64_t cpu, uint64_t begin,
		      uint64_t end, struct error *err)
{
	struct perfetto *p = f->own;
	struct event_values event;
	struct pb_field field;
	uint64_t ts, last = 0;
	int ret = foreign_see_cpu(f, (int64_t)cpu, err);

	f->facts.clock = f->facts.clock ?: "boot";
	for (struct span rest = bundle; !ret && pb_next(&rest, &field);) {
		if (field.number == BUNDLE_DESCRIPTOR && field.is_bytes)
			perfetto_events_learn(p->events, field.bytes);
		else if (field.number == BUNDLE_CLOCK)
			f->facts.clock = clock_name(field.value);
	}
	while (!ret && pb_next(&bundle, &field)) {
		if (field.number != BUNDLE_EVENT || !field.is_bytes)
			continue;
		if (!perfetto_events_read(p->events, field.bytes, &event, &ts) ||
		    (event.of && !shapes_see(f->shapes, &event))) {
			f->source.bad++;
			continue;
		}
		if (!event.of)
			continue;
		last = ts > last ? ts : last;
		ret = foreign_see_event(f, begin, end, (int)cpu, last, err);
		if (!event.of->table)
			ret = ret ?: see_names(f, field.bytes, err);
	}
	f->source.bad += bundle.bad;
	return ret;
}

/* ProcessTree: threads with a name, processes with a command. */
static int see_processes(struct foreign *f, struct span tree, struct error *err)
{
	enum { PROCESSES = 1, THREADS = 2, ID = 1, NAME = 2, COMMAND = 3 };
	struct pb_field field, inner;
	int ret = 0;

	while (!ret && pb_next(&tree, &field)) {
		uint32_t wanted = field.number == THREADS ? NAME : COMMAND;
		struct span name = {0};
		int64_t id = 0;

		if (!field.is_bytes || (field.number != THREADS && field.number != PROCESSES))
			continue;
		while (pb_next(&field.bytes, &inner)) {
			if (inner.number == ID && !inner.is_bytes)
				id = (int32_t)inner.value;
			else if (inner.number == wanted && inner.is_bytes && !name.at)
				name = inner.bytes;
		}
		if (field.number == PROCESSES && name.at) { /* the last part of a path */
			const uint8_t *slash = memrchr(name.at, '/', span_left(&name));

			name.at = slash ? slash + 1 : name.at;
		}
		if (name.at)
			ret = foreign_see_comm(f, id, span_words(name), err);
	}
	return ret;
}

/* FtraceStats: the kernel's counts of each CPU, at the start and at the end. */
static int see_stats(struct foreign *f, struct span stats, struct error *err)
{
	enum { PHASE = 1, CPU_STATS = 2, START = 1, CPU = 1, OVERRUN = 3, COMMIT = 4, DROPPED = 8 };
	struct perfetto *p = f->own;
	struct pb_field field, inner;
	uint64_t phase = pb_value(stats, PHASE);
	int ret = 0;

	p->has_end |= phase != START;
	while (!ret && pb_next(&stats, &field)) {
		uint64_t cpu = 0, lost = 0;

		if (field.number != CPU_STATS || !field.is_bytes)
			continue;
		while (pb_next(&field.bytes, &inner)) {
			if (inner.number == CPU)
				cpu = inner.value;
			else if (inner.number == OVERRUN || inner.number == COMMIT ||
				 inner.number == DROPPED)
				lost += inner.value < MAX_COUNT ? inner.value : 0;
		}
		if (cpu >= DECODER_CPUS)
			continue;
		ret = foreign_see_cpu(f, (int64_t)cpu, err);
		if (phase == START)
			p->counted[cpu] = lost;
		else if (!ret && lost >= p->counted[cpu])
			f->untimed[f->ring_of[cpu]] = lost - p->counted[cpu];
	}
	return ret;
}

/* TraceStats: the losses of Perfetto's own buffers. */
static void see_buffers(struct perfetto *p, struct span stats)
{
	enum { BUFFER = 1, OVERWRITTEN = 3, DISCARDED = 18, PACKET_LOSS = 19 };
	struct pb_field field, inner;
	uint64_t chunks = 0;

	while (pb_next(&stats, &field)) {
		if (field.number != BUFFER || !field.is_bytes)
			continue;
		while (pb_next(&field.bytes, &inner))
			if (inner.number == OVERWRITTEN || inner.number == DISCARDED ||
			    inner.number == PACKET_LOSS)
				chunks += inner.value < MAX_COUNT ? inner.value : 0;
	}
	p->chunks = chunks; /* the last count is the whole one */
}

static void see_system(struct foreign *f, struct span info)
{
	enum { UTSNAME = 1, RELEASE = 3, MACHINE = 4, CPUS = 8 };
	struct perfetto *p = f->own;
	struct pb_field field, inner;

	while (pb_next(&info, &field)) {
		if (field.number == CPUS && field.value < DECODER_CPUS &&
		    (int)field.value > f->facts.cpus)
			f->facts.cpus = (int)field.value;
		if (field.number != UTSNAME || !field.is_bytes)
			continue;
		while (pb_next(&field.bytes, &inner)) {
			char **fact = inner.number == RELEASE   ? &p->release
				      : inner.number == MACHINE ? &p->machine
								: NULL;

			if (fact && inner.is_bytes && !*fact)
				*fact = strndup((const char *)inner.bytes.at,
						span_left(&inner.bytes));
		}
	}
}

/* ClockSnapshot */
static void see_clocks(struct perfetto *p, struct span snapshot)
{
	enum { READING = 1, CLOCK = 1, TIME = 2 };
	uint64_t found[CLOCKS] = {0};
	struct pb_field field;

	while (pb_next(&snapshot, &field)) {
		uint64_t clock;

		if (field.number != READING || !field.is_bytes)
			continue;
		clock = pb_value(field.bytes, CLOCK);
		if (clock < CLOCKS)
			found[clock] = pb_value(field.bytes, TIME);
	}
	if (found[CLOCK_WALL] && !p->clocks[CLOCK_WALL])
		memcpy(p->clocks, found, sizeof(found));
}

static uint64_t to_wall(const struct perfetto *p, const char *clock)
{
	uint64_t its = !clock                       ? 0
		       : !strcmp(clock, "boot")     ? p->clocks[CLOCK_BOOT]
		       : !strcmp(clock, "mono_raw") ? p->clocks[CLOCK_MONO_RAW]
						    : 0;

	return its && p->clocks[CLOCK_WALL] ? p->clocks[CLOCK_WALL] - its : 0;
}

static int see_packet(struct foreign *f, struct span packet, uint64_t begin, uint64_t end,
		      struct error *err)
{
	struct perfetto *p = f->own;
	struct pb_field field;
	struct span bundle;
	uint64_t cpu;
	int ret = 0;

	if (find_bundle(packet, &bundle, &cpu))
		return see_bundle(f, bundle, cpu, begin, end, err);
	while (!ret && pb_next(&packet, &field)) {
		if (!field.is_bytes)
			continue;
		if (field.number == PACKET_PROCESS_TREE)
			ret = see_processes(f, field.bytes, err);
		else if (field.number == PACKET_FTRACE_STATS)
			ret = see_stats(f, field.bytes, err);
		else if (field.number == PACKET_TRACE_STATS)
			see_buffers(p, field.bytes);
		else if (field.number == PACKET_SYSTEM_INFO)
			see_system(f, field.bytes);
		else if (field.number == PACKET_CLOCKS)
			see_clocks(p, field.bytes);
		else if (field.number == PACKET_COMPRESSED)
			return UNPACK;
	}
	f->source.bad += packet.bad;
	return ret;
}

static int see_all(struct foreign *f, struct error *err)
{
	struct span trace = foreign_span(f), packet;
	const uint8_t *data = trace.at, *begin = data;
	int ret = 0;

	for (; !ret && next_packet(&trace, &packet); begin = trace.at)
		ret = see_packet(f, packet, (uint64_t)(begin - data), (uint64_t)(trace.at - data),
				 err);
	f->source.bad += trace.bad;
	return ret;
}

static int survey(struct foreign *f, struct error *err)
{
	struct perfetto *p = f->own = calloc(1, sizeof(*p));
	int ret;

	if (!p || !(p->counted = calloc(DECODER_CPUS, sizeof(*p->counted))))
		return fail(err, ENOMEM, "no memory for a Perfetto trace");
	f->facts.kind = FOREIGN_PERFETTO;
	ret = shapes_new(&f->shapes, err);
	ret = ret ?: perfetto_events_new(&p->events, f->shapes, err);
	ret = ret ?: see_all(f, err);
	if (ret == UNPACK)
		ret = foreign_unpack(f, perfetto_inflate, foreign_span(f), err) ?: see_all(f, err);
	if (ret)
		return ret < 0 ? ret : fail(err, EBADMSG, "%s: damaged: compressed twice", f->path);
	if (!f->nr_parts)
		return fail(
			err, EBADMSG,
			"%s: a Perfetto trace without ftrace events: record with the data source"
			" linux.ftrace and the events kmem/mm_page_alloc and others",
			f->path);
	foreign_cover(f, 0, f->size);
	f->facts.kernel = p->release;
	f->facts.arch = p->machine;
	f->facts.counts_loss = p->has_end && !p->chunks;
	f->facts.dropped_chunks = p->chunks;
	f->to_wall = to_wall(p, f->facts.clock);
	return 0;
}

static int begin(struct foreign *f, const struct foreign_names *names, struct error *err)
{
	struct perfetto *p = f->own;
	struct numbering numbering = {.pageblock_order = -1};

	p->places = calloc(f->nr_streams + 1, sizeof(*p->places));
	p->values = calloc(f->nr_streams + 1, sizeof(*p->values));
	if (!p->places || !p->values)
		return fail(err, ENOMEM, "no memory for %zu parts", f->nr_parts);
	memcpy(numbering.gfp, names->gfp_bits, sizeof(numbering.gfp));
	return shapes_formats(f->shapes, f->source.tep, &numbering, err);
}

/* Go to the next packet with events; false at the end of the part. */
static bool enter_bundle(struct foreign *f, struct cursor *c, struct place *place)
{
	struct span trace = {c->next, c->end, false}, packet;
	struct pb_field field;
	uint64_t cpu;

	while (next_packet(&trace, &packet)) {
		c->next = trace.at;
		if (!find_bundle(packet, &place->events, &cpu))
			continue;
		place->cpu = (int)cpu;
		place->ts = 0;
		for (struct span rest = place->events; pb_next(&rest, &field);)
			if (field.number == BUNDLE_LOST_EVENTS && field.value)
				foreign_lose(f, place->cpu, UNKNOWN_COUNT);
		return true;
	}
	return false;
}

static bool next(struct foreign *f, struct cursor *c)
{
	struct perfetto *p = f->own;
	struct place *place = &p->places[c->number];
	struct event_values *event = &p->values[c->number];
	struct pb_field field;
	uint64_t ts;

	do {
		while (place->events.at && pb_next(&place->events, &field)) {
			if (field.number != BUNDLE_EVENT || !field.is_bytes ||
			    !perfetto_events_read(p->events, field.bytes, event, &ts) || !event->of)
				continue;
			place->ts = ts > place->ts ? ts : place->ts;
			c->ts = place->ts;
			c->cpu = place->cpu;
			return true;
		}
	} while (enter_bundle(f, c, place));
	place->events.at = NULL;
	return false;
}

static int add(struct foreign *f, const struct cursor *c, struct error *err)
{
	const struct perfetto *p = f->own;
	uint8_t record[MAX_RECORD];
	int size = shapes_record(&p->values[c->number], record);

	return size ? foreign_add(f, c->cpu, c->ts, record, size, err) : 0;
}

static void close_perfetto(struct foreign *f)
{
	struct perfetto *p = f->own;

	if (!p)
		return;
	perfetto_events_free(p->events);
	free(p->places);
	free(p->values);
	free(p->counted);
	free(p->release);
	free(p->machine);
	free(p);
}

const struct reader perfetto_reader = {survey, begin, next, add, close_perfetto};
