// SPDX-License-Identifier: Apache-2.0
/* struct serve: made; its pages that are freed with others; its anomalies. */
#include "serve_internal.h"

#include "model/memory.h"
#include "model/policy_stack.h"

#include <errno.h>

const struct request_facts no_facts = {.free.drain_pages = -1, .landed_frame = NO_FRAME};

bool serve_is_freed_with_others(const struct serve *s, frame_nr page)
{
	return (s->alloc_batches && alloc_batches_have(s->alloc_batches, page)) ||
	       (s->huge && huge_has(s->huge, page));
}

static bool is_shared(const void *self, frame_nr page)
{
	return serve_is_freed_with_others(self, page);
}

static bool split(void *self, frame_nr page)
{
	struct serve *s = self;

	if (!s->alloc_batches || !alloc_batches_have(s->alloc_batches, page))
		return false;
	alloc_batches_split(s->alloc_batches, s->model, page);
	return true;
}

static int64_t split_some(void *self, const struct zone *zone, int64_t pages)
{
	struct serve *s = self;

	return s->alloc_batches ? alloc_batches_split_some(s->alloc_batches, s->model, zone, pages)
				: 0;
}

static void move_batch(void *self, frame_nr from, frame_nr to)
{
	struct serve *s = self;

	if (s->alloc_batches && alloc_batches_have(s->alloc_batches, from))
		alloc_batches_move(s->alloc_batches, from, to);
}

int serve_init(struct serve *s, struct model *model, struct anomalies anomalies, struct error *err)
{
	struct policy *owner = model->policies->owner.alloc_batch;
	struct alloc_batch batch;
	int ret;

	*s = (struct serve){
		.model = model,
		.anomalies = anomalies,
		.undone_at = UINT64_MAX,
		.request = no_facts,
	};
	ret = page_map_new(&s->pages, model, err);
	if (ret)
		return ret;
	s->pages.is_shared = is_shared;
	s->pages.split = split;
	s->pages.split_some = split_some;
	s->pages.move_batch = move_batch;
	s->pages.self = s;
	if (model->kernel->coalesced_frees)
		s->runs = arrays_new(model->arrays, (size_t)model->nr_cpus, sizeof(*s->runs));
	if (model->record->zone_events)
		s->refills = arrays_new(model->arrays, (size_t)model->nr_cpus, sizeof(*s->refills));
	owner->ops->alloc_batch(owner, &batch);
	if (batch.order && alloc_batches_new(&s->alloc_batches, model, &batch, err))
		return -ENOMEM;
	if (huge_new(&s->huge, model, err))
		return -ENOMEM;
	return arrays_error(model->arrays, err);
}

void serve_report(struct serve *s, const struct waiting *e, int kind, int action)
{
	anomalies_add(&s->anomalies, &(struct anomaly){
					     .at = s->at,
					     .moment = &e->moment,
					     .pfn = (int64_t)frame_pfn(s->model, e->frame),
					     .order = e->order,
					     .kind = kind,
					     .action = action,
				     });
}
