// SPDX-License-Identifier: Apache-2.0
#include "explain_validate.h"

#include "score/score.h"

enum { EVENTS_BEFORE = 12 };

static void print_window_event(const struct score *score, struct explanation *explanation,
			       const struct window_event *event)
{
	static const char *const depths[] = {"", " in softirq", " in hardirq", " in NMI"};

	explain_print(explanation, "  row %llu, cpu %u, pid %d%s: %s pfn %llu order %d",
		      (unsigned long long)event->at, event->cpu, event->pid,
		      depths[event_depth(event)], event_table.kinds[event->kind].name,
		      (unsigned long long)frame_pfn(score->m, event->frame), event->order);
	if (event->kind != EVENT_KIND_FREE && event->kind != EVENT_KIND_FREE_BATCHED)
		explain_print(explanation, " %.*s", LABEL(&migratetype_labels, event->migratetype));
	if (event->kind == EVENT_KIND_ALLOC_EXTFRAG)
		explain_print(explanation, " from order %d %.*s%s", event->fallback_order,
			      LABEL(&migratetype_labels, event->fallback_migratetype),
			      event->owner ? ", claimed" : "");
	explain_print(explanation, "\n");
}

/* The events of the CPU up to the one that shows the miss. */
static void print_past(const struct score *score, struct explanation *explanation,
		       const struct window_event *event)
{
	const struct window_event *past[EVENTS_BEFORE];
	uint64_t oldest =
		score->window->done < WINDOW_BEHIND ? 0 : score->window->done - WINDOW_BEHIND;
	int nr = 0;

	for (uint64_t i = score->window->done + 1; i-- > oldest && nr < EVENTS_BEFORE;) {
		const struct window_event *s = window_at(score->window, i);

		if (s->cpu == event->cpu && s->at < event->at)
			past[nr++] = s;
	}
	explain_print(explanation, "before it, on its CPU:\n");
	while (nr)
		print_window_event(score, explanation, past[--nr]);
}

/* An event, and those of its CPU before it. */
static void print_event(const struct score *score, struct explanation *explanation,
			const struct window_event *event)
{
	print_past(score, explanation, event);
	explain_print(explanation, "the event:\n");
	print_window_event(score, explanation, event);
}

static void print_state(const struct score *score, struct explanation *explanation)
{
	const struct miss *miss = &score->divergence.miss;
	struct scene scene = {miss->zone, miss->event->cpu, miss->order, miss->migratetype};

	explain_print_state(explanation, score->m, &scene);
}

static void on_event(void *self, const struct score *score, const struct window_event *event)
{
	struct validate_explanation *e = self;

	if (e->trace && event->at == e->trace->config.at)
		print_event(score, &e->trace->event, event);
}

static void on_missed(void *self, const struct score *score, const struct miss *miss)
{
	struct validate_explanation *e = self;

	print_event(score, &e->miss, miss->event);
	explain_print(&e->miss, "the model as it predicted:\n");
	print_state(score, &e->miss);
}

static void on_repaired(void *self, const struct score *score)
{
	struct validate_explanation *e = self;

	explain_print(&e->miss, "the model put right:\n");
	print_state(score, &e->miss);
}

static void on_forgotten(void *self)
{
	struct validate_explanation *e = self;

	e->miss.text[0] = 0;
}

struct validate_observer validate_explanation_observer(struct validate_explanation *e)
{
	return (struct validate_observer){
		.self = e,
		.event = on_event,
		.missed = on_missed,
		.repaired = on_repaired,
		.forgotten = on_forgotten,
	};
}
