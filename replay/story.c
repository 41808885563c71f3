// SPDX-License-Identifier: Apache-2.0
#include "buddy.h"
#include "validate_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { EVENTS_BEFORE = 12, ENTRIES = 6 };

__attribute__((format(printf, 2, 3))) static void tell(struct validate *v, const char *format, ...)
{
	char *story = v->divergence.story;
	size_t length = strlen(story);
	va_list args;

	va_start(args, format);
	vsnprintf(story + length, sizeof(v->divergence.story) - length, format, args);
	va_end(args);
}

static const char *label(const struct labels *labels, int i, char *room, size_t size)
{
	snprintf(room, size, "%.*s", (int)(labels->offsets[i + 1] - labels->offsets[i]),
		 labels->text + labels->offsets[i]);
	return room;
}

static void tell_step(struct validate *v, const struct step *step)
{
	static const char *const depths[] = {"", " in softirq", " in hardirq", " in NMI"};
	char room[32];

	tell(v, "  row %llu, cpu %u, pid %d%s: %s pfn %llu order %d", (unsigned long long)step->at,
	     step->cpu, step->pid, depths[step_depth(step)], event_table.kinds[step->kind].name,
	     (unsigned long long)frame_pfn(v->m, step->frame), step->order);
	if (step->kind != EVENT_KIND_FREE && step->kind != EVENT_KIND_FREE_BATCHED)
		tell(v, " %s", label(&migratetype_labels, step->migratetype, room, sizeof(room)));
	if (step->kind == EVENT_KIND_ALLOC_EXTFRAG)
		tell(v, " from order %d %s%s", step->fallback_order,
		     label(&migratetype_labels, step->fallback_migratetype, room, sizeof(room)),
		     step->owner ? ", claimed" : "");
	tell(v, "\n");
}

/* The steps of the CPU up to the one that shows the miss. */
static void tell_past(struct validate *v, const struct step *step)
{
	const struct step *past[EVENTS_BEFORE];
	uint64_t oldest = v->steps.done < STEPS_BEHIND ? 0 : v->steps.done - STEPS_BEHIND;
	int nr = 0;

	for (uint64_t i = v->steps.done + 1; i-- > oldest && nr < EVENTS_BEFORE;) {
		const struct step *s = step_number(&v->steps, i);

		if (s->cpu == step->cpu && s->at < step->at)
			past[nr++] = s;
	}
	tell(v, "before it, on its CPU:\n");
	while (nr)
		tell_step(v, past[--nr]);
}

static void tell_list(struct validate *v, uint32_t list)
{
	const struct frame *f = v->m->frames;
	uint32_t entry = f[list].next;

	for (int i = 0; i < ENTRIES && entry != list; i++, entry = f[entry].next)
		tell(v, " %llu", (unsigned long long)frame_pfn(v->m, entry));
	tell(v, entry == list ? "\n" : " ...\n");
}

static void tell_state(struct validate *v)
{
	const struct miss *miss = &v->divergence.miss;
	const struct model *m = v->m;
	const struct pcp *pcp = zone_pcp(m, miss->zone, miss->step->cpu);
	int type = miss->migratetype;

	tell(v, "  pcp: count %d, high %d (%d to %d), batch %d, alloc_factor %d, free_count %d%s\n",
	     pcp->count, pcp->high, pcp->high_min, pcp->high_max, pcp->batch, pcp->alloc_factor,
	     pcp->free_count, miss->zone->below_high ? ", zone below high" : "");
	if (pcp_allowed(m, miss->order)) {
		tell(v, "  pcp list:");
		tell_list(v, pcp_list(m, pcp, miss->order, type));
	}
	for (int order = miss->order; order <= m->max_order; order++) {
		if (!miss->zone->nr_free[order][type])
			continue;
		tell(v, "  free list of order %d, %u blocks:", order,
		     miss->zone->nr_free[order][type]);
		tell_list(v, free_list(miss->zone, order, type));
		break;
	}
}

void story_begin(struct validate *v, const struct miss *miss)
{
	tell_past(v, miss->step);
	tell(v, "the event:\n");
	tell_step(v, miss->step);
	tell(v, "the model as it predicted:\n");
	tell_state(v);
}

void story_end(struct validate *v)
{
	if (!v->divergence.known || v->divergence.told)
		return;
	v->divergence.told = true;
	tell(v, "the model put right:\n");
	tell_state(v);
}
