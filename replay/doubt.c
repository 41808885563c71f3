// SPDX-License-Identifier: Apache-2.0
#include "validate_run.h"

/* A miss that is none if pages were taken without an event; their frees will prove that. */
struct doubt *new_doubt(struct validate *v, const struct miss *miss)
{
	struct doubt *doubt = v->free_doubt;

	if (!doubt)
		return NULL;
	v->free_doubt = doubt->next;
	*doubt = (struct doubt){.open = true, .miss = *miss, .step = *miss->step};
	doubt->miss.step = &doubt->step;
	if (!v->divergence.known) {
		v->divergence.doubt = doubt;
		tell_divergence(v, miss);
	}
	return doubt;
}

/* One page less to wait for; the last one decides. */
static void settle_doubt(struct validate *v, struct doubt *doubt)
{
	if (!doubt->waiting || --doubt->waiting)
		return;
	if (doubt->open) {
		score(&v->score, doubt->miss.zone, DECISION_ALLOC, EXACT);
		v->totals.alloc_inferred++;
		if (v->divergence.doubt == doubt)
			forget_divergence(v);
	}
	doubt->next = v->free_doubt;
	v->free_doubt = doubt;
	doubt->open = false;
}

void refute_doubt(struct validate *v, struct doubt *doubt)
{
	if (!doubt->open)
		return;
	doubt->open = false;
	if (v->divergence.doubt == doubt)
		v->divergence.doubt = NULL;
	missed(v, &doubt->miss);
}

void hear_of(struct validate *v, uint32_t frame, bool proof)
{
	struct frame *f = &v->m->frames[frame];
	struct doubt *doubt;

	if (f->list != NO_ALLOC)
		return;
	f->list = 0;
	if (f->next >= MAX_DOUBTS) /* there is none, or the page was part of others since */
		return;
	doubt = &v->doubts[f->next];
	if (!proof)
		refute_doubt(v, doubt);
	settle_doubt(v, doubt);
}
