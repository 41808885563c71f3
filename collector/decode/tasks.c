// SPDX-License-Identifier: Apache-2.0
#include "tasks.h"
#include "input/regular.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	FIRST_SLOTS = 4096,      /* a power of two */
	KTHREADD = 2,            /* the parent of kernel threads */
	PF_KTHREAD = 0x00200000, /* include/linux/sched.h */
	COMM = sizeof(((struct task *)0)->comm),
	MIN_LINES = 1 << 16,
	MAX_FILE = 1 << 30,    /* bytes; a task of 4 million has a line of 30 to 250 */
	MAX_CGROUPS = 1 << 16, /* the array is always sorted: more would take quadratic time */
};

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL /* include/uapi/linux/sched.h, 5.7 */
#endif

/* Offsets of the fields in the records of one of the three tracepoints. */
struct layout {
	int type; /* common_type; -1: the kernel lacks the tracepoint or has another form of it */
	int pid, comm, clone_flags, clone_size, root, path, end;
};

struct tasks {
	struct layout newtask, rename, attach;
	bool past;  /* past recording: this machine's /proc does not apply */
	FILE *file; /* every known task, a line each; NULL: not stored */
	char *path;
	size_t nr_lines; /* lines in it */
	size_t nr, slots;
	struct task *table; /* open addressing by pid; pid 0 is a free slot */

	/* Paths of control groups, each once; a machine has few. */
	int hierarchy; /* hierarchy of the groups, numbered as in /proc; 0: cgroup v2 */
	size_t nr_cgroups, room;
	char **cgroups; /* sorted */
};

static struct task *slot_of(struct task *table, size_t slots, int32_t pid)
{
	size_t at = (size_t)pid * 2654435761u & (slots - 1);

	while (table[at].pid && table[at].pid != pid)
		at = (at + 1) & (slots - 1);
	return &table[at];
}

/* The entry of `pid`, added if it is new; NULL without memory: then only a name is missing. */
static struct task *enter(struct tasks *tasks, int32_t pid)
{
	struct task *task;

	if (pid <= 0)
		return NULL;
	if (2 * (tasks->nr + 1) > tasks->slots) {
		size_t slots = 2 * tasks->slots;
		struct task *table = calloc(slots, sizeof(*table));

		if (!table)
			return NULL;
		for (size_t i = 0; i < tasks->slots; i++)
			if (tasks->table[i].pid)
				*slot_of(table, slots, tasks->table[i].pid) = tasks->table[i];
		free(tasks->table);
		tasks->table = table;
		tasks->slots = slots;
	}
	task = slot_of(tasks->table, tasks->slots, pid);
	if (!task->pid) {
		tasks->nr++;
		task->kthread = -1;
	}
	task->pid = pid;
	return task;
}

/* The stored path, valid as long as `tasks`; NULL without memory or room. */
static const char *cgroup_of_path(struct tasks *tasks, const char *path)
{
	size_t low = 0, high = tasks->nr_cgroups;
	char *copy;

	while (low < high) {
		size_t middle = (low + high) / 2;
		int order = strcmp(tasks->cgroups[middle], path);

		if (!order)
			return tasks->cgroups[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (tasks->nr_cgroups == MAX_CGROUPS)
		return NULL;
	if (tasks->nr_cgroups == tasks->room) {
		size_t room = tasks->room ? 2 * tasks->room : 64;
		char **more = reallocarray(tasks->cgroups, room, sizeof(*more));

		if (!more)
			return NULL;
		tasks->cgroups = more;
		tasks->room = room;
	}
	copy = strdup(path);
	if (!copy)
		return NULL;
	memmove(tasks->cgroups + low + 1, tasks->cgroups + low,
		(tasks->nr_cgroups - low) * sizeof(*tasks->cgroups));
	tasks->nr_cgroups++;
	return tasks->cgroups[low] = copy;
}

/* One line of /proc/<pid>/cgroup, "hierarchy:controllers:path", cut into its parts. */
static bool split_cgroup(char *line, int *hierarchy, char **controllers, char **path)
{
	static const char deleted[] = " (deleted)";
	size_t length;

	*hierarchy = atoi(strsep(&line, ":"));
	*controllers = strsep(&line, ":");
	*path = line ? line : "";
	length = strcspn(*path, "\n");
	if (*path[0] != '/')
		return false;
	(*path)[length] = '\0';
	if (length > strlen(deleted) && !strcmp(*path + length - strlen(deleted), deleted))
		(*path)[length - strlen(deleted)] = '\0';
	return true;
}

/* The control group of a living process or thread; else NULL. */
static const char *read_cgroup(struct tasks *tasks, int32_t pid)
{
	char *line = NULL, *controllers, *path, name[64];
	const char *cgroup = NULL;
	size_t size = 0;
	int hierarchy;
	FILE *file;

	if (tasks->past)
		return NULL;
	snprintf(name, sizeof(name), "/proc/%d/cgroup", pid);
	file = fopen(name, "re");
	while (file && !cgroup && getline(&line, &size, file) > 0)
		if (split_cgroup(line, &hierarchy, &controllers, &path) &&
		    hierarchy == tasks->hierarchy)
			cgroup = cgroup_of_path(tasks, path);
	if (file)
		fclose(file);
	free(line);
	return cgroup;
}

/* The hierarchy of the v1 controller `memory`, or 0. */
static int find_hierarchy(void)
{
	char *line = NULL, *controllers, *path, *one;
	FILE *file = fopen("/proc/self/cgroup", "re");
	int hierarchy, found = 0;
	size_t size = 0;

	while (file && !found && getline(&line, &size, file) > 0)
		if (split_cgroup(line, &hierarchy, &controllers, &path))
			while ((one = strsep(&controllers, ",")))
				found = strcmp(one, "memory") ? found : hierarchy;
	if (file)
		fclose(file);
	free(line);
	return found;
}

/* Append the line of a task that is new or has changed. */
static void keep(struct tasks *tasks, const struct task *task)
{
	const char *cgroup = task->cgroup ? task->cgroup : "";

	if (!tasks->file)
		return;
	fprintf(tasks->file, "%d %d %d %zu:%s %zu:%s\n", task->pid, task->tgid, task->kthread,
		strlen(task->comm), task->comm, strlen(cgroup), cgroup);
	tasks->nr_lines++;
}

/* From /proc/<tgid>/task/<pid>/stat: "pid (comm) state ppid pgrp session tty tpgid flags ...". */
static void read_stat(struct tasks *tasks, int32_t tgid, int32_t pid, const char *cgroup)
{
	char path[64], stat[256], *open, *close;
	unsigned long flags;
	struct task *task;
	size_t nr, length;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", tgid, pid);
	file = fopen(path, "re");
	if (!file)
		return;
	nr = fread(stat, 1, sizeof(stat) - 1, file);
	fclose(file);
	stat[nr] = '\0';
	open = strchr(stat, '(');
	close = strrchr(stat, ')');
	if (!open || !close || sscanf(close, ") %*c %*d %*d %*d %*d %*d %lu", &flags) != 1)
		return;
	task = enter(tasks, pid);
	if (!task)
		return;
	length = (size_t)(close - open - 1);
	length = length < COMM ? length : COMM - 1;
	memcpy(task->comm, open + 1, length);
	task->comm[length] = '\0';
	task->tgid = tgid;
	task->kthread = flags & PF_KTHREAD ? 1 : 0;
	task->cgroup = cgroup;
	keep(tasks, task);
}

/* All threads count as in the group of their process; exceptions are rare. */
static void scan_process(struct tasks *tasks, int32_t tgid)
{
	const char *cgroup = read_cgroup(tasks, tgid);
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", tgid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			read_stat(tasks, tgid, atoi(entry->d_name), cgroup);
	if (dir)
		closedir(dir);
}

void tasks_scan(struct tasks *tasks)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc");

	while (dir && (entry = readdir(dir)))
		if (atoi(entry->d_name) > 0)
			scan_process(tasks, atoi(entry->d_name));
	if (dir)
		closedir(dir);
}

void tasks_scan_own(struct tasks *tasks)
{
	if (!tasks->past)
		scan_process(tasks, getpid());
}

/* The offset of a field of `size` bytes; -1: none, or at a place that no record has. */
static int offset(struct tep_event *event, const char *name, int size)
{
	struct tep_format_field *field = tep_find_field(event, name);

	if (!field || field->size != size || field->offset < 0 || field->offset > UINT16_MAX)
		return -1;
	return field->offset;
}

/* A record must reach to the end of every field that is read from it. */
static void need(struct layout *layout, int at, int size)
{
	layout->end = at + size > layout->end ? at + size : layout->end;
}

static void learn(struct layout *layout, struct tep_event *event, const char *comm)
{
	layout->type = -1;
	if (!event)
		return;
	/* A record without a pid is about the running thread. */
	layout->pid = offset(event, "pid", sizeof(int32_t));
	if (layout->pid < 0)
		layout->pid = 4; /* common_pid */
	layout->comm = offset(event, comm, COMM);
	if (layout->comm < 0)
		return;
	need(layout, layout->pid, sizeof(int32_t));
	need(layout, layout->comm, COMM);
	for (int size = 4; size <= 8; size += 4) {
		int at = offset(event, "clone_flags", size);

		if (at < 0)
			continue;
		layout->clone_flags = at;
		layout->clone_size = size;
		need(layout, at, size);
	}
	layout->type = event->id;
}

static void learn_attach(struct layout *layout, struct tep_event *event)
{
	layout->type = -1;
	if (!event)
		return;
	layout->root = offset(event, "dst_root", sizeof(int32_t));
	layout->pid = offset(event, "pid", sizeof(int32_t));
	layout->path = offset(event, "dst_path", sizeof(uint32_t)); /* __data_loc */
	if (layout->root < 0 || layout->pid < 0 || layout->path < 0)
		return;
	need(layout, layout->root, sizeof(int32_t));
	need(layout, layout->pid, sizeof(int32_t));
	need(layout, layout->path, sizeof(uint32_t));
	layout->type = event->id;
}

int tasks_new(struct tasks **out, struct tep_handle *tep, struct error *err)
{
	struct tasks *tasks = calloc(1, sizeof(*tasks));

	*out = tasks;
	if (tasks)
		tasks->table = calloc(FIRST_SLOTS, sizeof(*tasks->table));
	if (!tasks || !tasks->table) {
		tasks_free(tasks);
		*out = NULL;
		return fail(err, ENOMEM, "no memory for task names");
	}
	tasks->slots = FIRST_SLOTS;
	learn(&tasks->newtask, tep_find_event_by_name(tep, "task", "task_newtask"), "comm");
	learn(&tasks->rename, tep_find_event_by_name(tep, "task", "task_rename"), "newcomm");
	learn_attach(&tasks->attach, tep_find_event_by_name(tep, "cgroup", "cgroup_attach_task"));
	tasks->hierarchy = find_hierarchy();
	return 0;
}

void tasks_free(struct tasks *tasks)
{
	if (!tasks)
		return;
	if (tasks->file)
		fclose(tasks->file);
	free(tasks->path);
	for (size_t i = 0; i < tasks->nr_cgroups; i++)
		free(tasks->cgroups[i]);
	free(tasks->cgroups);
	free(tasks->table);
	free(tasks);
}

/* Write all tasks to a new file, which replaces the current one. */
static int write_all(struct tasks *tasks, struct error *err)
{
	char next[PATH_MAX];
	FILE *file;

	snprintf(next, sizeof(next), "%s.part", tasks->path);
	file = fopen(next, "we");
	if (!file)
		return fail(err, errno, "cannot make %s: %s", next, strerror(errno));
	fchmod(fileno(file), 0600);
	if (tasks->file)
		fclose(tasks->file);
	tasks->file = file;
	tasks->nr_lines = 0;
	fprintf(file, "hierarchy %d\n", tasks->hierarchy);
	for (size_t i = 0; i < tasks->slots; i++)
		if (tasks->table[i].pid)
			keep(tasks, &tasks->table[i]);
	if (fflush(file) || rename(next, tasks->path))
		return fail(err, errno, "cannot write %s: %s", tasks->path, strerror(errno));
	return 0;
}

int tasks_keep(struct tasks *tasks, const char *path, struct error *err)
{
	tasks->path = strdup(path);
	return tasks->path ? write_all(tasks, err) : fail(err, ENOMEM, "no memory for a file name");
}

void tasks_sync(struct tasks *tasks)
{
	if (!tasks->file)
		return;
	/* With many short-lived threads most lines are outdated: rewrite the file. */
	if (tasks->nr_lines > MIN_LINES + 8 * tasks->nr)
		write_all(tasks, NULL);
	else
		fflush(tasks->file);
}

/* Copy "4:bash" into a buffer, NUL-terminated; false if it is too long or incomplete. */
static bool read_string(FILE *file, char *to, size_t room)
{
	size_t length;

	if (fscanf(file, "%zu", &length) != 1 || fgetc(file) != ':' || length >= room ||
	    fread(to, 1, length, file) != length)
		return false;
	to[length] = '\0';
	return true;
}

static bool read_line(FILE *file, struct task *task, char cgroup[PATH_MAX])
{
	int kthread;

	if (fscanf(file, "%d %d %d", &task->pid, &task->tgid, &kthread) != 3)
		return false;
	task->kthread = kthread == 0 || kthread == 1 ? (int8_t)kthread : -1;
	return read_string(file, task->comm, sizeof(task->comm)) &&
	       read_string(file, cgroup, PATH_MAX) && fgetc(file) == '\n';
}

int tasks_load(struct tasks *tasks, const char *path, struct error *err)
{
	char cgroup[PATH_MAX];
	struct task task, *to;
	int ret;
	FILE *file = regular_stream(path, MAX_FILE, &ret, err);

	if (!file)
		return ret;
	tasks->past = true;
	if (fscanf(file, "hierarchy %d", &tasks->hierarchy) != 1) {
		fclose(file);
		return fail(err, EBADMSG, "%s: not a file of tasks", path);
	}
	while (read_line(file, &task, cgroup)) {
		to = enter(tasks, task.pid);
		if (!to)
			continue;
		*to = task;
		to->cgroup = cgroup[0] ? cgroup_of_path(tasks, cgroup) : NULL;
	}
	fclose(file);
	return 0;
}

static int32_t number_at(const char *record, int offset)
{
	int32_t value;

	memcpy(&value, record + offset, sizeof(value));
	return value;
}

static void see_newtask(struct tasks *tasks, const struct layout *layout, const char *record)
{
	int32_t parent = number_at(record, 4), pid = number_at(record, layout->pid);
	const struct task *known = parent > 0 ? slot_of(tasks->table, tasks->slots, parent) : NULL;
	int32_t tgid = known && known->pid ? known->tgid : 0;
	const char *cgroup = known && known->pid ? known->cgroup : NULL;
	/* Only kthreadd makes kernel threads. Its pid alone proves nothing: see its own flags. */
	int8_t kthread = parent != KTHREADD ? 0 : known && known->pid ? known->kthread : -1;
	struct task *task = enter(tasks, pid); /* may move what `known` points at */
	uint64_t flags = 0;

	if (!task)
		return;
	memcpy(&flags, record + layout->clone_flags, (size_t)layout->clone_size);
	memcpy(task->comm, record + layout->comm, COMM);
	task->comm[COMM - 1] = '\0';
	task->tgid = flags & CLONE_THREAD ? tgid : pid;
	task->kthread = kthread;
	task->cgroup = flags & CLONE_INTO_CGROUP ? read_cgroup(tasks, pid) : cgroup;
	keep(tasks, task);
}

/* A thread, or with its leader a whole process, has moved to another group. */
static void see_attach(struct tasks *tasks, const struct layout *layout, const char *record,
		       int size)
{
	uint32_t loc = (uint32_t)number_at(record, layout->path), at = loc & 0xffff;
	int32_t pid = number_at(record, layout->pid);
	const char *path = record + at, *cgroup;
	struct task *task;

	if (number_at(record, layout->root) != tasks->hierarchy || at >= (uint32_t)size ||
	    !memchr(path, '\0', (uint32_t)size - at))
		return;
	cgroup = cgroup_of_path(tasks, path);
	task = enter(tasks, pid);
	if (!task)
		return;
	task->cgroup = cgroup;
	keep(tasks, task);
	for (size_t i = 0; task->tgid == pid && i < tasks->slots; i++) {
		struct task *thread = &tasks->table[i];

		if (thread->tgid != pid || thread->cgroup == cgroup)
			continue;
		thread->cgroup = cgroup;
		keep(tasks, thread);
	}
}

static void see_rename(struct tasks *tasks, const struct layout *layout, const char *record)
{
	struct task *task = enter(tasks, number_at(record, layout->pid));

	if (!task)
		return;
	memcpy(task->comm, record + layout->comm, COMM);
	task->comm[COMM - 1] = '\0';
	/* A helper of the kernel that executes a program renames itself, and is then a process. */
	if (number_at(record, 4) == task->pid && task->kthread == 1)
		task->kthread = -1;
	keep(tasks, task);
}

void tasks_see(struct tasks *tasks, const void *record, int size)
{
	uint16_t type;

	if (size < (int)sizeof(type))
		return;
	memcpy(&type, record, sizeof(type));
	if (type == tasks->newtask.type && size >= tasks->newtask.end)
		see_newtask(tasks, &tasks->newtask, record);
	else if (type == tasks->rename.type && size >= tasks->rename.end)
		see_rename(tasks, &tasks->rename, record);
	else if (type == tasks->attach.type && size >= tasks->attach.end)
		see_attach(tasks, &tasks->attach, record, size);
}

/* /proc shows threads by their pid too, only not in its listing. */
static void look_up(struct tasks *tasks, int32_t pid)
{
	int32_t tgid = 0;
	char path[64], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (!tgid && fgets(line, sizeof(line), file))
		sscanf(line, "Tgid: %d", &tgid);
	fclose(file);
	if (tgid)
		read_stat(tasks, tgid, pid, read_cgroup(tasks, pid));
}

const struct task *tasks_find(struct tasks *tasks, int32_t pid)
{
	const struct task *task;

	if (pid <= 0)
		return NULL;
	task = slot_of(tasks->table, tasks->slots, pid);
	if (!task->comm[0] && !tasks->past) {
		look_up(tasks, pid);
		task = slot_of(tasks->table, tasks->slots, pid);
	}
	return task->comm[0] ? task : NULL;
}
