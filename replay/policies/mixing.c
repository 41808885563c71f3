// SPDX-License-Identifier: Apache-2.0
#include "mixing.h"

#include "watermark.h"
#include "zonelist.h"

static void count(struct mixing *mixing, const struct model *m, bool changed)
{
	bool same = mixing->known && mixing->ts == m->now.ts && mixing->cpu == m->now.cpu;

	if (!same) {
		mixing->known = true;
		mixing->ts = m->now.ts;
		mixing->cpu = m->now.cpu;
		mixing->is_changed = false;
		mixing->requests++;
	}
	mixing->changed += changed && !mixing->is_changed;
	mixing->is_changed |= changed;
}

/* Whether a lower zone of the preferred zone's node is above its low watermark. */
static bool lower_zone_has_room(const struct model *m, const struct request *rq,
				const struct zone *preferred)
{
	const struct zonelist *list = zonelist_of(m, rq);

	for (int i = 0; i < list->nr; i++) {
		const struct zone *zone = list->zones[i];

		if (zone->node == preferred->node && zone->type < preferred->type &&
		    watermark_ok(m, zone, rq, zone_mark(zone, WMARK_LOW)))
			return true;
	}
	return false;
}

static enum nofragment_span mainline_span(struct policy *self, const struct model *m,
					  const struct request *rq, const struct zone *preferred)
{
	struct policy *mainline = self->mainline;

	return mainline->ops->nofragment(mainline, m, rq, preferred);
}

void mixing_refused(struct mixing *mixing, struct policy *self, const struct model *m,
		    const struct request *rq, enum nofragment_span span)
{
	const struct zone *preferred = zone_preferred(m, rq);
	bool room = lower_zone_has_room(m, rq, preferred);
	bool changed = false;

	/* After one pass in vain the request mixes all the same. */
	if (span == NOFRAGMENT_FIRST_PASS && !room) {
		mixing->no_room++;
		return;
	}
	switch (mainline_span(self, m, rq, preferred)) {
	case NOFRAGMENT_OFF:
		changed = true;
		break;
	case NOFRAGMENT_FIRST_PASS:
		changed = span == NOFRAGMENT_ALWAYS && (!room || rq->flags & ALLOC_SLOW);
		break;
	case NOFRAGMENT_ALWAYS:
		break;
	}
	count(mixing, m, changed);
}

void mixing_allowed(struct mixing *mixing, struct policy *self, const struct model *m,
		    const struct request *rq)
{
	const struct zone *preferred = zone_preferred(m, rq);
	enum nofragment_span span = mainline_span(self, m, rq, preferred);

	count(mixing, m,
	      span == NOFRAGMENT_ALWAYS ||
		      (span == NOFRAGMENT_FIRST_PASS && lower_zone_has_room(m, rq, preferred)));
}

void mixing_effect_always(const struct mixing *mixing, struct policy_effect *effect)
{
	if (!mixing->requests)
		effect_never(effect, "no request found the lists of its migratetype empty");
	else
		effect_decided(effect, mixing->requests, (int64_t)mixing->changed,
			       "refused to let %llu request%s mix migratetypes at once; mainline "
			       "would let %llu of them",
			       (unsigned long long)mixing->requests, plural(mixing->requests),
			       (unsigned long long)mixing->changed);
}
