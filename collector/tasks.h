/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.h - names and control groups of the threads that a recording meets.
 *
 * /proc knows those that live, the task:task_newtask, task:task_rename and
 * cgroup:cgroup_attach_task records those that come, go and move within a recording.
 * A pid that was used again has the name of its last thread.
 *
 * The control group is that of the memory controller: the one that a page is charged
 * to. With cgroup v2 there is no other; with v1 each controller has a hierarchy.
 */
#pragma once

#include "error.h"

#include <event-parse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task {
	int32_t pid;
	int32_t tgid; /* 0: unknown */
	bool kthread;
	char comm[16];      /* ends with NUL */
	const char *cgroup; /* path; NULL: unknown */
};

struct tasks;

/* `tep` tells the formats of the three records; without them only /proc counts. */
int tasks_new(struct tasks **out, struct tep_handle *tep, struct error *err);
void tasks_free(struct tasks *tasks);

/* Learn every thread of the machine from /proc. */
void tasks_scan(struct tasks *tasks);

/*
 * Keep all that is known, and that will be, in a new file, later words on a pid in place of
 * earlier ones. Written out by tasks_sync and at the end. Text, lengths before the strings:
 *
 *	hierarchy 0
 *	612 612 0 4:bash 11:/user.slice
 */
int tasks_keep(struct tasks *tasks, const char *path, struct error *err);
void tasks_sync(struct tasks *tasks);

/* Learn what was kept, up to the last whole line. /proc is not looked at from then on. */
int tasks_load(struct tasks *tasks, const char *path, struct error *err);

/* Learn from a record, if it is one of the three; else this costs three compares. */
void tasks_see(struct tasks *tasks, const void *record, int size);

/* The thread, by what is known or by /proc now; NULL if it was never named. */
const struct task *tasks_find(struct tasks *tasks, int32_t pid);
