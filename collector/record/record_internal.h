/* SPDX-License-Identifier: Apache-2.0 */
/* record_internal.h - the state of a recording, shared by record.c and record_setup.c. */
#pragma once

#include "record.h"
#include "spool/writer.h"

#include <pthread.h>
#include <stdatomic.h>

struct recorder {
	struct unspool unspool; /* first: see ring_stats */
	struct instance *instance;
	char *spool;
	struct spool_budget budget;
	uint64_t spool_max, spool_memory;
	struct writer *writer;
	bool keep, defer, prompt; /* as in struct recorder_config */
	char dir[32];     /* the spools' directory, by descriptor, because it may be renamed */
	int dir_fd, stop; /* stop is an eventfd */
	bool started;
	atomic_bool stopped, closed;
	atomic_bool switched_off; /* by this recorder, nobody else */
	pthread_t thread;
	atomic_bool decodes; /* `thread` is the decoder */
	char ended[48];      /* how */

	char **events; /* requested events that the kernel has */
	size_t nr_events;
	char **skipped;
	size_t nr_skipped;
	struct kernel_addresses addresses;
	char **filters; /* as in the config */
	size_t nr_filters;
	char **stacks; /* event, filter, ... */
	size_t nr_stacks;
	uint64_t looked_read; /* events read at the last recorder_look */
};

/*
 * Learn the formats of the events asked for, and make the decoder and the task list. -ENOENT
 * (no such event), -ENOTSUP (no stacks), -EINVAL, -ENOMEM.
 */
int recorder_set_formats(struct recorder *r, const struct recorder_config *config,
			 struct error *err);

/* A cursor for each CPU that is online ("0-3,8" in /sys/devices/system/cpu/online). */
int recorder_set_cpus(struct recorder *r, struct error *err);

/* Enable the events in the instance, which is still switched off. */
int recorder_enable_events(struct recorder *r, struct error *err);
