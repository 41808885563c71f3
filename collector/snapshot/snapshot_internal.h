/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot_internal.h - the loaded snapshot programs and their maps, for snapshot_load.c
 * (loads them) and snapshot.c (runs them).
 */
#pragma once

#include "freeze.h"
#include "snapshot_precopy.h"
#include "snapshot_still.h"

#include <bpf/libbpf.h>

enum { TRIGGER_ORDER = 4 /* above the costly orders: no PCP has such pages */ };

/* XATTR_SIZE_MAX: getxattr() makes the kernel allocate so much in one piece, and free it. */
enum { TRIGGER_SIZE = PAGE_SIZE << TRIGGER_ORDER };

enum map_nr {
	CONTROL,
	PLACES,
	ZONES,
	PCPS,
	SECTIONS,
	NODES,
	PAGE_BITS,
	SECTION_BITS,
	TOUCHES,
	CLAIMS,
	SEGMENTS,
	NR_MAPS
};

enum { MAX_EVENTS = 5 };

struct mapping {
	void *memory;
	size_t size;
};

struct snapshot {
	struct bpf_object *object;
	struct mapping maps[NR_MAPS];
	struct snapshot_images images;
	struct control *control; /* the map; images.control without const */
	struct freezer *freezer;
	uint64_t max_ns; /* longest hold */
	struct snapshot_zone *zones;
	uint8_t *online, *was_online; /* by CPU: now, and when the freezer was made */
	char *trigger_buffer;
	int leader; /* index of its CPU in freezer_cpus() */
	struct joined joined;
	struct freezer_hold *holds;
	uint64_t *locks;
};

/* Read a small text file into `text`, cut at `size`. 0 or -errno. */
int snapshot_read_text(const char *path, char *text, size_t size);

enum { SNAPSHOT_LOG_SIZE = 1 << 20 }; /* of the verifier's log */

/* Explain a failed load by the verifier's log; returns the error. */
int snapshot_load_error(int ret, const char *log, struct error *err);

/* Run one of the SEC("syscall") programs. */
void snapshot_run(struct snapshot *s, const char *name);

/* The same with a context, which the program may change. */
void snapshot_run_with(struct snapshot *s, const char *name, void *context, size_t size);

/* CLOCK_MONOTONIC, the clock of the programs. */
uint64_t snapshot_now_ns(void);

/*
 * Load the programs for memory as it is now, with room for `times` as many entries of its lists,
 * instead of those that are loaded. Errors: as snapshot_new(); then those stay.
 */
int snapshot_load(struct snapshot *s, unsigned int times, struct error *err);

void snapshot_unload(struct snapshot *s);

/* Room of the map `nodes` for lists of so many entries. */
uint64_t snapshot_room(uint64_t entries);

/* Attach the programs on events, all or none. -errno. */
int snapshot_attach(struct snapshot *s, struct bpf_link *links[MAX_EVENTS], struct error *err);

/* Memory sections that the zone reaches into. */
uint32_t snapshot_sections(const struct control *c, const struct zone_place *place);
