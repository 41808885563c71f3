// SPDX-License-Identifier: Apache-2.0
/* The begin of a recording: its instance, events, rings, spools and threads. */
#include "record_internal.h"
#include "tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For the names and control groups of threads; see tasks.h. */
static const char *const task_events[] = {"task:task_newtask", "task:task_rename",
					  "cgroup:cgroup_attach_task", NULL};

enum { STACK_FILTER = 1024 }; /* longest filter of stacks, bytes */

static int add_name(char ***names, size_t *nr, const char *name, struct error *err)
{
	char **more = realloc(*names, (*nr + 1) * sizeof(*more));

	if (more)
		*names = more;
	if (!more || !(more[*nr] = strdup(name)))
		return fail(err, ENOMEM, "no memory for the name of %s", name);
	(*nr)++;
	return 0;
}

static int split(const char *name, char system[64], char event[64], struct error *err)
{
	if (sscanf(name, "%63[^:]:%63s", system, event) != 2)
		return fail(err, EINVAL, "'%s' is not a tracepoint: expected system:event", name);
	return 0;
}

/* Address of vmstat_update(); 0 if the kernel hides its addresses. */
static uint64_t find_vmstat_update(void)
{
	unsigned long long address = 0;
	char line[256];
	FILE *file = fopen("/proc/kallsyms", "re");

	while (file && !address && fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, " vmstat_update");

		if (name && (name[14] == '\n' || name[14] == '\0'))
			address = strtoull(line, NULL, 16);
	}
	if (file)
		fclose(file);
	return address;
}

/* Parse the format of an event; false if this machine cannot record it. */
static bool learn_event(struct recorder *r, const char *system, const char *event)
{
	size_t size;
	char *format = instance_event_read(r->instance, system, event, "format", &size);

	if (!format)
		return false;
	tep_parse_event(r->unspool.source.tep, format, size, system);
	free(format);
	if (!strcmp(event, "workqueue_execute_start")) {
		r->addresses.vmstat_update = find_vmstat_update();
		if (!r->addresses.vmstat_update)
			return false;
	}
	return tep_find_event_by_name(r->unspool.source.tep, system, event);
}

static int add_events(struct recorder *r, const char *const *names, struct error *err)
{
	int ret = 0;

	for (; *names && !ret; names++) {
		char system[64], event[64];

		ret = split(*names, system, event, err);
		if (ret)
			break;
		if (learn_event(r, system, event))
			ret = add_name(&r->events, &r->nr_events, *names, err);
		else
			ret = add_name(&r->skipped, &r->nr_skipped, *names, err);
	}
	return ret;
}

static bool has_name(char *const *names, size_t nr, const char *name)
{
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* Tracepoints were renamed: each requested page event must exist under one name. */
static int check_page_events(const struct recorder *r, struct error *err)
{
	for (int k = 0; k < event_table.nr_kinds; k++) {
		const char *const *name = event_table.kinds[k].tracepoints;
		const char *missing = NULL;
		bool found = false;

		for (; *name; name++) {
			found = found || has_name(r->events, r->nr_events, *name);
			if (has_name(r->skipped, r->nr_skipped, *name))
				missing = *name;
		}
		if (missing && !found)
			return fail(err, ENOENT, "this kernel has no tracepoint %s", missing);
	}
	return 0;
}

int recorder_set_formats(struct recorder *r, const struct recorder_config *config,
			 struct error *err)
{
	struct decoder_names names = config->names;
	int ret;

	r->addresses = config->names.addresses;
	r->unspool.source.tep = tep_alloc();
	if (!r->unspool.source.tep)
		return fail(err, ENOMEM, "no memory for event formats");
	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(r->unspool.source.tep, sizeof(long));
	tep_set_page_size(r->unspool.source.tep, (int)sysconf(_SC_PAGESIZE));
	ret = add_events(r, config->events, err);
	ret = ret ?: check_page_events(r, err);
	for (const char *const *text = config->filters; !ret && *text; text++)
		ret = add_name(&r->filters, &r->nr_filters, *text, err);
	if (!ret && !r->nr_events)
		ret = fail(err, ENOENT, "this kernel has none of the events asked for");
	ret = ret ?: add_events(r, task_events, err);
	if (!ret && config->stacks && !learn_event(r, "ftrace", "kernel_stack"))
		ret = fail(err, ENOTSUP, "this kernel records no stacks (CONFIG_STACKTRACE)");
	if (!ret && config->stacks)
		ret = add_name(&r->events, &r->nr_events, "ftrace:kernel_stack", err);
	names.addresses = r->addresses;
	if (!ret)
		ret = decoder_new(&r->unspool.source.decoder, r->unspool.source.tep, &names,
				  SOURCE_ROWS, err);
	ret = ret ?: decoder_check(r->unspool.source.decoder, err);
	ret = ret ?: tasks_new(&r->unspool.tasks, r->unspool.source.tep, err);
	return ret;
}

int recorder_set_cpus(struct recorder *r, struct error *err)
{
	const char *path = "/sys/devices/system/cpu/online";
	FILE *file = fopen(path, "re");
	int first, last, ret = 0;
	char after = ',';

	if (!file)
		return fail(err, errno, "cannot read %s: %s", path, strerror(errno));
	while (!ret && after == ',' && fscanf(file, "%d%c", &first, &after) == 2) {
		last = first;
		if (after == '-' && fscanf(file, "%d%c", &last, &after) != 2)
			break;
		for (int cpu = first; cpu <= last && !ret; cpu++)
			ret = unspool_add(&r->unspool, cpu, instance_name(r->instance), err);
	}
	fclose(file);
	return ret ?: unspool_ready(&r->unspool, err);
}

static const char *filter_of(const struct recorder *r, const char *event)
{
	for (size_t i = 0; i + 1 < r->nr_filters; i += 2)
		if (!strcmp(r->filters[i], event))
			return r->filters[i + 1];
	return NULL;
}

static int set_stack_triggers(const struct recorder *r, struct error *err)
{
	char system[64], event[64], trigger[STACK_FILTER + 32];

	for (size_t i = 0; i + 1 < r->nr_stacks; i += 2) {
		const char *filter = r->stacks[i + 1];
		int ret = split(r->stacks[i], system, event, err);

		if (ret)
			return ret;
		snprintf(trigger, sizeof(trigger), "stacktrace%s%s", *filter ? " if " : "", filter);
		ret = instance_trigger(r->instance, system, event, trigger, err);
		if (ret)
			return ret;
	}
	return 0;
}

int recorder_add_stacks(struct recorder *r, const char *event, const char *filter,
			struct error *err)
{
	int ret = 0;

	if (strlen(filter) > STACK_FILTER)
		ret = fail(err, E2BIG, "the condition of stacks is longer than %d bytes",
			   STACK_FILTER);
	ret = ret ?: add_name(&r->stacks, &r->nr_stacks, event, err);
	return ret ?: add_name(&r->stacks, &r->nr_stacks, filter, err);
}

int recorder_enable_events(struct recorder *r, struct error *err)
{
	char system[64], event[64], filter[64];

	snprintf(filter, sizeof(filter), "function == 0x%llx",
		 (unsigned long long)r->addresses.vmstat_update);
	for (size_t i = 0; i < r->nr_events; i++) {
		bool is_work = !strcmp(r->events[i], "workqueue:workqueue_execute_start");
		int ret = split(r->events[i], system, event, err);

		if (!strcmp(system, "ftrace"))
			continue; /* a trigger's, below */
		if (!ret)
			ret = instance_enable(r->instance, system, event,
					      is_work ? filter : filter_of(r, r->events[i]), err);
		if (ret)
			return ret;
	}
	return set_stack_triggers(r, err);
}
