// SPDX-License-Identifier: Apache-2.0
#include "snapshot_internal.h"
#include "snapshot_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Set flags[n] for every n in a list such as "0-3,8". */
static void parse_cpu_list(const char *list, uint8_t *flags, uint32_t nr)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long n = first; n <= last && n < nr; n++)
			flags[n] = 1;
		list = end + (*end == ',');
	}
}

/* Fresh counters. False: memory is not where it was, or the maps have little room for its lists. */
static bool maps_fit(struct snapshot *s)
{
	uint32_t zones = s->control->nr_zones;
	uint64_t entries;

	snapshot_run(s, "find_zones");
	if (s->control->nr_zones != zones)
		return false;
	entries = s->control->pcp_pages;
	for (uint32_t z = 0; z < zones; z++) {
		const struct zone_place *place = &s->images.places[z];

		entries += place->free_blocks;
		if (snapshot_sections(s->control, place) != place->nr_sections)
			return false;
	}
	return snapshot_room(entries) <= 2 * s->control->max_nodes;
}

static void find_online(struct snapshot *s)
{
	char text[4096];

	memset(s->online, 0, s->control->nr_cpus);
	if (!snapshot_read_text("/sys/devices/system/cpu/online", text, sizeof(text)))
		parse_cpu_list(text, s->online, s->control->nr_cpus);
}

/* The kernel moves the thread of a CPU that goes offline to another one: start all threads anew. */
static int follow_hotplug(struct snapshot *s, struct error *err)
{
	find_online(s);
	if (s->freezer && !memcmp(s->online, s->was_online, s->control->nr_cpus))
		return 0;
	memcpy(s->was_online, s->online, s->control->nr_cpus);
	freezer_free(s->freezer);
	s->freezer = NULL;
	return freezer_new(&s->freezer, err);
}

/* What needs no program. */
static int make_buffers(struct snapshot *s, struct error *err)
{
	uint32_t cpus = s->control->nr_cpus;

	s->images.online = s->online = calloc(cpus, 1);
	s->was_online = calloc(cpus, 1);
	s->trigger_buffer = malloc(TRIGGER_SIZE);
	s->holds = calloc(SNAPSHOT_MAX_HOLDS, sizeof(*s->holds));
	s->locks = calloc(SNAPSHOT_MAX_HOLDS, sizeof(*s->locks));
	if (!s->online || !s->was_online || !s->trigger_buffer || !s->holds || !s->locks)
		return fail(err, ENOMEM, "no memory for %u CPUs", cpus);
	return 0;
}

int snapshot_new(struct snapshot **out, struct error *err)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	int ret = s ? snapshot_load(s, 1, err) : fail(err, ENOMEM, "no memory for a snapshot");

	*out = NULL;
	ret = ret ?: make_buffers(s, err);
	ret = ret ?: follow_hotplug(s, err);
	if (ret) {
		snapshot_free(s);
		return ret;
	}
	*out = s;
	return 0;
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	freezer_free(s->freezer);
	snapshot_unload(s);
	free(s->zones);
	free(s->online);
	free(s->was_online);
	free(s->trigger_buffer);
	free(s->holds);
	free(s->locks);
	free(s->joined.nodes);
	free(s);
}

static int take(struct snapshot *s, uint16_t nr, unsigned int max_us, struct snapshot_result *out,
		struct error *err)
{
	struct control *c = s->control;
	struct bpf_link *links[MAX_EVENTS] = {NULL};
	int ret;

	/* Attach only now: an attached program slows each of its events a little. */
	ret = snapshot_attach(s, links, err);
	if (ret)
		return ret;
	*out = (struct snapshot_result){
		.zones = s->zones, .nr_zones = c->nr_zones, .holds = s->holds, .locks = s->locks};
	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
		out->cpus += s->online[cpu];
	memset(s->zones, 0, c->nr_zones * sizeof(*s->zones));
	s->max_ns = (uint64_t)max_us * 1000;
	ret = precopy_take(s, nr, out, err);
	for (int i = 0; i < MAX_EVENTS; i++)
		bpf_link__destroy(links[i]);
	return ret;
}

bool snapshot_zone_lock(const struct snapshot *s, uint32_t z, struct snapshot_zone_lock *out)
{
	const struct zone_place *place = &s->images.places[z];

	if (z >= s->control->nr_zones)
		return false;
	*out = (struct snapshot_zone_lock){place->address + s->control->layout.zone.lock.offset,
					   (uint16_t)place->node, (uint8_t)place->number};
	return true;
}

int snapshot_take(struct snapshot *s, uint16_t nr, unsigned int max_us, struct snapshot_result *out,
		  struct error *err)
{
	int ret = maps_fit(s) ? 0 : snapshot_load(s, 1, err);

	ret = ret ?: follow_hotplug(s, err);
	ret = ret ?: take(s, nr, max_us, out, err);
	if (ret || out->exact || !out->hindered[SNAPSHOT_FULL])
		return ret;
	/* The lists grow while they are copied. */
	snapshot_free_tables(out);
	ret = snapshot_load(s, 4, err);
	return ret ? ret : take(s, nr, max_us, out, err);
}
