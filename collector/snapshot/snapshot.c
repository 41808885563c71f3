// SPDX-License-Identifier: Apache-2.0
#include "snapshot_internal.h"

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

/* Fresh counters; memory must be where it was when the maps were sized. */
static int refresh(struct snapshot *s, struct error *err)
{
	uint32_t zones = s->control->nr_zones;
	char text[4096];

	snapshot_run(s, "find_zones");
	if (s->control->nr_zones != zones)
		return fail(err, ESTALE,
			    "memory was added or removed since the snapshot was loaded");
	for (uint32_t z = 0; z < zones; z++)
		if (snapshot_sections(s->control, &s->images.places[z]) !=
		    s->images.places[z].nr_sections)
			return fail(err, ESTALE,
				    "memory was added or removed since the snapshot was loaded");
	memset(s->online, 0, s->control->nr_cpus);
	if (!snapshot_read_text("/sys/devices/system/cpu/online", text, sizeof(text)))
		parse_cpu_list(text, s->online, s->control->nr_cpus);
	return 0;
}

int snapshot_take(struct snapshot *s, uint16_t nr, unsigned int max_us, struct snapshot_result *out,
		  struct error *err)
{
	struct control *c = s->control;
	struct bpf_link *links[MAX_EVENTS] = {NULL};
	int ret = refresh(s, err);

	if (ret)
		return ret;
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
