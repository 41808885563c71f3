// SPDX-License-Identifier: Apache-2.0
#include "validate_run.h"

enum { EVENTS_BEFORE = 12 };

static void tell_step(const struct validate *v, struct story *story, const struct step *step)
{
	static const char *const depths[] = {"", " in softirq", " in hardirq", " in NMI"};

	story_tell(story, "  row %llu, cpu %u, pid %d%s: %s pfn %llu order %d",
		   (unsigned long long)step->at, step->cpu, step->pid, depths[step_depth(step)],
		   event_table.kinds[step->kind].name,
		   (unsigned long long)frame_pfn(v->m, step->frame), step->order);
	if (step->kind != EVENT_KIND_FREE && step->kind != EVENT_KIND_FREE_BATCHED)
		story_tell(story, " %.*s", LABEL(&migratetype_labels, step->migratetype));
	if (step->kind == EVENT_KIND_ALLOC_EXTFRAG)
		story_tell(story, " from order %d %.*s%s", step->fallback_order,
			   LABEL(&migratetype_labels, step->fallback_migratetype),
			   step->owner ? ", claimed" : "");
	story_tell(story, "\n");
}

/* The steps of the CPU up to the one that shows the miss. */
static void tell_past(const struct validate *v, struct story *story, const struct step *step)
{
	const struct step *past[EVENTS_BEFORE];
	uint64_t oldest = v->steps.done < STEPS_BEHIND ? 0 : v->steps.done - STEPS_BEHIND;
	int nr = 0;

	for (uint64_t i = v->steps.done + 1; i-- > oldest && nr < EVENTS_BEFORE;) {
		const struct step *s = step_number(&v->steps, i);

		if (s->cpu == step->cpu && s->at < step->at)
			past[nr++] = s;
	}
	story_tell(story, "before it, on its CPU:\n");
	while (nr)
		tell_step(v, story, past[--nr]);
}

void tell_event(const struct validate *v, struct story *story, const struct step *step)
{
	tell_past(v, story, step);
	story_tell(story, "the event:\n");
	tell_step(v, story, step);
}

static void tell_state(struct validate *v)
{
	const struct miss *miss = &v->divergence.miss;
	struct scene scene = {miss->zone, miss->step->cpu, miss->order, miss->migratetype};

	story_tell_state(&v->divergence.story, v->m, &scene);
}

void story_begin(struct validate *v, const struct miss *miss)
{
	tell_event(v, &v->divergence.story, miss->step);
	story_tell(&v->divergence.story, "the model as it predicted:\n");
	tell_state(v);
}

void story_end(struct validate *v)
{
	if (!v->divergence.known || v->divergence.told)
		return;
	v->divergence.told = true;
	story_tell(&v->divergence.story, "the model put right:\n");
	tell_state(v);
}
