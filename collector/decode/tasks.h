/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tasks.h - names and control groups of the threads in a recording.
 *
 * /proc lists the living threads. The records of task:task_newtask, task:task_rename and
 * cgroup:cgroup_attach_task name those that start, end and move during a recording.
 * A reused pid has the name of its last thread.
 *
 * The control group is that of the memory controller, to which pages are charged. cgroup v2 has a
 * single hierarchy; with v1 each controller has its own.
 */
#pragma once

#include "error.h"

#include <event-parse.h>
#include <stdint.h>

struct task {
	int32_t pid;
	int32_t tgid;       /* 0: unknown */
	int8_t kthread;     /* 1: proven to be a kernel thread, 0: proven not to be, -1: unknown */
	char comm[16];      /* ends with NUL */
	const char *cgroup; /* path; NULL: unknown */
};

struct tasks;

/* `tep` has the formats of the three records; without them only /proc is used. */
int tasks_new(struct tasks **out, struct tep_handle *tep, struct error *err);
void tasks_free(struct tasks *tasks);

/* Learn every thread of the machine from /proc. */
void tasks_scan(struct tasks *tasks);

/* Learn the threads of this process. Past tasks: none. */
void tasks_scan_own(struct tasks *tasks);

/*
 * Store all tasks, known and future, in a new file; a later line of a pid replaces an earlier one.
 * tasks_sync and the end of the recording write it out. Text, lengths before the strings:
 *
 *	hierarchy 0
 *	612 612 0 4:bash 11:/user.slice
 */
int tasks_keep(struct tasks *tasks, const char *path, struct error *err);
void tasks_sync(struct tasks *tasks);

/*
 * Read a stored file, up to its last whole line. Afterwards /proc is not used. -ENOENT and the
 * like, -EINVAL (not a regular file), -EFBIG, -EBADMSG (not of this format).
 */
int tasks_load(struct tasks *tasks, const char *path, struct error *err);

/* Learn from a record of one of the three; other records cost three compares. */
void tasks_see(struct tasks *tasks, const void *record, int size);

/* The thread, from the records or from /proc now; NULL if it has no known name. */
const struct task *tasks_find(struct tasks *tasks, int32_t pid);
