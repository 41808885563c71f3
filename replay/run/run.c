// SPDX-License-Identifier: Apache-2.0
#include "run.h"

#include "model/clock.h"
#include "model/policy_stack.h"
#include "model/scan_effects.h"

#include <assert.h>
#include <errno.h>

enum { ANOMALY_ROWS = 1 << 14 };
#define MIN_INTERVAL_NS 1000000ull

static int check_config(const struct run_config *config, struct error *err)
{
	for (size_t s = 0; s < config->nr_spans; s++)
		if (config->spans[s].first > config->spans[s].end ||
		    (s && config->spans[s].first < config->spans[s - 1].end))
			return fail(err, EINVAL, "span %zu, %llu to %llu, is not in order", s,
				    (unsigned long long)config->spans[s].first,
				    (unsigned long long)config->spans[s].end);
	if (config->interval_ns < MIN_INTERVAL_NS || config->interval_ns >> 62)
		return fail(err, EINVAL, "an interval of %llu ns",
			    (unsigned long long)config->interval_ns);
	return 0;
}

int run_init(struct run *run, const struct run_config *config, struct error *err)
{
	int ret;

	*run = (struct run){.config = *config};
	if (!run->config.recorded)
		run->config.recorded = config->kernel;
	ret = check_config(config, err);
	ret = ret ?: policy_stack_new(&run->policies, policies, err);
	for (int i = 0; i < config->nr_policy_libs && !ret; i++)
		ret = policy_stack_open(run->policies, config->policy_libs[i], err);
	for (int i = 0; i < config->nr_policies && !ret; i++)
		ret = policy_stack_add(run->policies, config->policies[i], err);
	if (!ret && config->machine.zone_events)
		ret = policy_stack_check_zone(run->policies, err);
	if (ret)
		return ret;
	run->load = (struct load){
		.kernel = *config->kernel,
		.recorded = run->config.recorded,
		.machine = config->machine,
		.policies = run->policies,
		.first = config->nr_spans ? config->spans[0].first : 0,
	};
	policy_stack_edit(run->policies, &run->load.kernel);
	run->anomalies.nr = run->nr_anomalies;
	return run_output(run, &run->anomalies.output, &anomaly_table, ANOMALY_ROWS, err);
}

void run_free(struct run *run)
{
	load_free(&run->load);
	policy_stack_free(run->policies);
	for (int i = 0; i < run->nr_outputs; i++)
		output_free(run->outputs[i]);
}

int run_output(struct run *run, struct output **out, const struct table *table, size_t rows,
	       struct error *err)
{
	int ret = output_new(out, table, rows, err);

	assert(run->nr_outputs < RUN_OUTPUTS_MAX);
	if (!ret)
		run->outputs[run->nr_outputs++] = *out;
	return ret;
}

int run_load(struct run *run, const char *table, const struct ArrowSchema *schema,
	     const struct ArrowArray *array, struct error *err)
{
	if (run->started)
		return fail(err, EINVAL, "rows of %s after the first event", table);
	return load_rows(&run->load, table, schema, array, err);
}

int run_start(struct run *run, struct error *err)
{
	const struct run_observer *observer = run->config.observer;
	int ret = load_complete(&run->load, err);

	if (ret)
		return ret;
	run->model = run->load.model;
	return observer ? observer->start(observer->self, run->model, err) : 0;
}

/* -ENOMEM if rows of an output list were lost. */
static int outputs_error(const struct run *run, struct error *err)
{
	int ret = 0;

	for (int i = 0; i < run->nr_outputs && !ret; i++)
		ret = output_error(run->outputs[i], err);
	return ret;
}

int run_feed(struct run *run, const struct event_columns *columns, size_t nr, run_rows_fn *rows,
	     void *self, struct error *err)
{
	static const struct span all = {0, UINT64_MAX};
	const struct span *spans = run->config.nr_spans ? run->config.spans : &all;
	size_t nr_spans = run->config.nr_spans ? run->config.nr_spans : 1;
	double begin = cpu_seconds();
	int ret = 0;

	if (run->finished)
		return fail(err, EINVAL, "events after the end of the tape");
	for (size_t s = 0; s < nr_spans && !ret; s++) {
		uint64_t first = spans[s].first > run->rows ? spans[s].first - run->rows : 0;
		uint64_t end = spans[s].end > run->rows ? spans[s].end - run->rows : 0;

		ret = rows(self, columns, first, end < nr ? end : nr, err);
	}
	run->rows += nr;
	run->loop_seconds += cpu_seconds() - begin;
	return ret ? ret : outputs_error(run, err);
}

uint64_t run_end(const struct run *run)
{
	const struct run_config *config = &run->config;
	uint64_t end = run->rows;

	if (config->nr_spans && config->spans[config->nr_spans - 1].end < end)
		end = config->spans[config->nr_spans - 1].end;
	return end;
}

int run_finish(struct run *run, struct error *err)
{
	const struct run_observer *observer = run->config.observer;

	if (run->finished)
		return fail(err, EINVAL, "the tape is over already");
	if (observer)
		observer->end(observer->self, run->model);
	run->finished = true;
	return outputs_error(run, err);
}

struct batch *run_read(struct run *run)
{
	struct batch *batch = NULL;

	for (int i = 0; i < run->nr_outputs && !batch; i++)
		batch = output_pop(run->outputs[i], run->finished);
	return batch;
}

bool run_reclaim_event(struct run *run, const struct reclaim_event *event)
{
	switch (event->kind) {
	case RECLAIM_EVENT_DIRECT_BEGIN:
		zone_mark_tried(run->model, event->where, event->gfp_flags, event->order);
		return true;
	case RECLAIM_EVENT_KSWAPD_BEGIN:
	case RECLAIM_EVENT_KSWAPD_SEEN:
	case RECLAIM_EVENT_KSWAPD_END:
		reclaim_events_kswapd(&run->load.reclaim_events, run->model, event);
		return true;
	case RECLAIM_EVENT_TICK:
	case RECLAIM_EVENT_DIRECT_END:
		break;
	}
	return false;
}
