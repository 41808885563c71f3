// SPDX-License-Identifier: Apache-2.0
#include "instance.h"

#include "guard_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <tracefs.h>
#include <unistd.h>

#define PREFIX "pagetape-"

enum {
	MAX_RING_KB = 32 * 1024, /* 0.8 s of the worst page-fault storm measured on one CPU */
	MIN_RING_KB = 1024,
	MAX_SUBBUF_KB = 64,
	MIN_SUBBUFS = 16,
	MEMORY_SHARE = 64, /* all rings together: at most this fraction of the memory */
	BUFFER_PERCENT = 50,
};

struct instance {
	struct tracefs_instance *tracefs;
	/* Its directory and the one above: open ones outlive an unmounted tracefs. */
	int dir, above;
	size_t ring_bytes, subbuf_bytes;
	struct guard guard;
};

/* Field 22 of /proc/<pid>/stat, the time the process started; 0 if there is none. */
static unsigned long long start_time(int pid)
{
	unsigned long long start = 0;
	char path[64], stat[1024];
	const char *field;
	size_t nr = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (file) {
		nr = fread(stat, 1, sizeof(stat) - 1, file);
		fclose(file);
	}
	stat[nr] = '\0';
	/* A process name may contain ") ": only the last bracket ends it. */
	field = strrchr(stat, ')');
	for (int i = 2; field && i < 22; i++)
		field = strchr(field + 1, ' ');
	if (field)
		start = strtoull(field, NULL, 10);
	return start;
}

/* A live recorder holds its rings open, so a wrong guess here cannot remove them. */
static int remove_if_left_over(const char *name, void *context)
{
	struct tracefs_instance *leftover;
	unsigned long long start;
	int pid;

	if (sscanf(name, PREFIX "%d-%llu", &pid, &start) != 2 || start_time(pid) == start)
		return 0;
	leftover = tracefs_instance_alloc(NULL, name);
	if (leftover) {
		tracefs_instance_destroy(leftover);
		tracefs_instance_free(leftover);
	}
	return 0;
}

size_t instance_default_ring_kb(void)
{
	struct sysinfo machine = {0};
	size_t kb;

	sysinfo(&machine);
	kb = (size_t)machine.totalram * machine.mem_unit / 1024 / MEMORY_SHARE /
	     (size_t)get_nprocs();
	if (kb > MAX_RING_KB)
		return MAX_RING_KB;
	return kb < MIN_RING_KB ? MIN_RING_KB : kb;
}

/* A kernel that is locked down for confidentiality refuses every file of tracefs, to root, too. */
static bool is_locked_down(void)
{
	FILE *file = fopen("/sys/kernel/security/lockdown", "re");
	char text[128] = "";

	if (file) {
		(void)!fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	return strstr(text, "[confidentiality]");
}

/* The next step for a user who may not make an instance, or not write into it. */
static const char *remedy(int code)
{
	if (code == EROFS)
		return " (in a container, mount tracefs writable)";
	if (code == ENOENT) /* the list of mounts has it */
		return " (another mount hides tracefs: mount it there again)";
	if (code != EACCES && code != EPERM)
		return "";
	if (is_locked_down())
		return " (the kernel is locked down: boot with lockdown=integrity)";
	return geteuid() ? " (run as root, or mount -o remount,uid=USER /sys/kernel/tracing: the "
			   "kernel lets a group of tracefs only read)"
			 : " (root of a container needs CAP_DAC_OVERRIDE and tracefs of the host)";
}

static int write_file(struct instance *instance, const char *file, const char *value,
		      struct error *err)
{
	int fd = openat(instance->dir, file, O_WRONLY | O_CLOEXEC), code = 0;

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		code = errno;
	if (fd >= 0)
		close(fd);
	return code ? fail(err, code, "cannot write %s to %s/%s: %s%s", value,
			   instance_name(instance), file, strerror(code), remedy(code))
		    : 0;
}

static void write_number(struct instance *instance, const char *file, long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", value);
	write_file(instance, file, text, NULL);
}

static long read_number(struct instance *instance, const char *file, long otherwise)
{
	long long value;

	if (tracefs_instance_file_read_number(instance->tracefs, file, &value))
		return otherwise;
	return (long)value;
}

/*
 * Large sub-buffers (6.8 and later) cost fewer reads. They are contiguous, so a fragmented machine
 * gets smaller ones: the first size of which it has a whole ring.
 */
static int set_ring(struct instance *instance, size_t ring_kb, struct error *err)
{
	long page_kb = sysconf(_SC_PAGESIZE) / 1024, kb = MAX_SUBBUF_KB;

	while (kb > page_kb && (size_t)kb * MIN_SUBBUFS > ring_kb)
		kb /= 2;
	for (; kb >= page_kb; kb /= 2) {
		write_number(instance, "buffer_subbuf_size_kb", kb);
		if (read_number(instance, "buffer_subbuf_size_kb", page_kb) != kb)
			continue;
		write_number(instance, "buffer_size_kb", (long)ring_kb);
		instance->subbuf_bytes = (size_t)kb * 1024;
		instance->ring_bytes = (size_t)read_number(instance, "buffer_size_kb", 0) * 1024;
		if (instance->ring_bytes >= ring_kb * 1024 / 2)
			return 0;
	}
	return fail(err, ENOMEM, "the kernel has no memory for a ring of %zu KB per CPU", ring_kb);
}

static int set_up(struct instance *instance, size_t ring_kb, struct error *err)
{
	/* A new instance inherits the options of the top one; these would add to our records. */
	static const char *const unwanted[] = {
		"options/record-cmd",     "options/record-tgid", "options/stacktrace",
		"options/userstacktrace", "options/event-fork",
	};
	int ret;

	ret = write_file(instance, "tracing_on", "0", err);
	ret = ret ?: write_file(instance, "trace_clock", "mono", err);
	if (ret)
		return ret;
	for (size_t i = 0; i < sizeof(unwanted) / sizeof(unwanted[0]); i++)
		write_file(instance, unwanted[i], "0", NULL);
	/* The kernel marks gaps only if the ring overwrites its oldest events. */
	ret = write_file(instance, "options/overwrite", "1", err);
	if (ret)
		return ret;
	if (!ring_kb)
		ring_kb = instance_default_ring_kb();
	write_number(instance, "buffer_percent", BUFFER_PERCENT);
	return set_ring(instance, ring_kb, err);
}

static int open_dir(struct tracefs_instance *tracefs, const char *name)
{
	char *path = tracefs_instance_get_file(tracefs, name);
	int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	tracefs_put_tracing_file(path);
	return fd;
}

/* Before the instance exists: a kill at any moment leaves none. */
static int start_guard(struct instance *instance, const struct instance_config *config,
		       const char *tracing, const char *name, struct error *err)
{
	char path[PATH_MAX];

	if (!config->guard)
		return 0;
	snprintf(path, sizeof(path), "%s/instances/%s", tracing, name);
	return guard_start(&instance->guard, config->guard, path, config->spool, err);
}

int instance_tracing_dir(const char **dir, struct error *err)
{
	tracefs_set_loglevel(TEP_LOG_NONE);
	if (tracefs_tracing_dir_is_mounted(true, dir) < 0)
		return fail(err, ENOENT,
			    "tracefs is not mounted, and mounting it failed (run as root): "
			    "mount -t tracefs tracefs /sys/kernel/tracing");
	return 0;
}

int instance_new(struct instance **out, const struct instance_config *config, struct error *err)
{
	struct instance *instance;
	const char *dir;
	char name[64];
	int ret;

	*out = NULL;
	ret = instance_tracing_dir(&dir, err);
	if (ret)
		return ret;
	tracefs_instances_walk(remove_if_left_over, NULL);

	instance = calloc(1, sizeof(*instance));
	if (!instance)
		return fail(err, ENOMEM, "no memory for a tracefs instance");
	instance->dir = instance->above = -1;
	instance->guard.pipe = -1;
	snprintf(name, sizeof(name), PREFIX "%d-%llu", getpid(), start_time(getpid()));
	/* Before the guard: it would remove the instance of the recorder that records. */
	if (tracefs_instance_exists(name)) {
		ret = fail(err, EBUSY, "this process records already");
		goto error;
	}
	ret = start_guard(instance, config, dir, name, err);
	if (ret)
		goto error;
	instance->tracefs = tracefs_instance_create(name);
	if (!instance->tracefs) {
		ret = errno;
		ret = fail(err, ret, "cannot make a tracing instance in %s/instances: %s%s", dir,
			   strerror(ret), remedy(ret));
		goto error;
	}
	instance->dir = open_dir(instance->tracefs, ".");
	instance->above = open_dir(instance->tracefs, "..");
	if (instance->dir < 0 || instance->above < 0)
		ret = fail(err, errno, "cannot open %s/instances/%s: %s", dir, name,
			   strerror(errno));
	else
		ret = set_up(instance, config->ring_kb, err);
	if (ret) {
		instance_free(instance);
		return ret;
	}
	*out = instance;
	return 0;
error:
	guard_end(&instance->guard);
	free(instance);
	return ret;
}

void instance_free(struct instance *instance)
{
	if (!instance)
		return;
	instance_switch(instance, false, NULL);
	if (instance->dir >= 0)
		close(instance->dir);
	if (instance->above < 0 || unlinkat(instance->above, instance_name(instance), AT_REMOVEDIR))
		tracefs_instance_destroy(instance->tracefs);
	if (instance->above >= 0)
		close(instance->above);
	tracefs_instance_free(instance->tracefs);
	guard_end(&instance->guard);
	free(instance);
}

const char *instance_name(const struct instance *instance)
{
	return tracefs_instance_get_name(instance->tracefs);
}

size_t instance_ring_bytes(const struct instance *instance)
{
	return instance->ring_bytes;
}

size_t instance_subbuf_bytes(const struct instance *instance)
{
	return instance->subbuf_bytes;
}

char *instance_event_read(struct instance *instance, const char *system, const char *event,
			  const char *file, size_t *size)
{
	int nr = 0;
	char *text = tracefs_event_file_read(instance->tracefs, system, event, file, &nr);

	*size = text ? (size_t)nr : 0;
	return text;
}

int instance_enable(struct instance *instance, const char *system, const char *event,
		    const char *filter, struct error *err)
{
	if (filter &&
	    tracefs_event_file_write(instance->tracefs, system, event, "filter", filter) < 0)
		return fail(err, errno, "the kernel refuses the filter '%s' on %s:%s: %s", filter,
			    system, event, strerror(errno));
	if (tracefs_event_file_write(instance->tracefs, system, event, "enable", "1") < 0)
		return fail(err, errno, "cannot enable %s:%s: %s", system, event, strerror(errno));
	return 0;
}

int instance_trigger(struct instance *instance, const char *system, const char *event,
		     const char *what, struct error *err)
{
	if (tracefs_event_file_write(instance->tracefs, system, event, "trigger", what) < 0)
		return fail(err, errno, "the kernel refuses the trigger '%s' on %s:%s: %s", what,
			    system, event, strerror(errno));
	return 0;
}

int instance_switch(struct instance *instance, bool on, struct error *err)
{
	int ret = write_file(instance, "tracing_on", on ? "1" : "0", err);

	if (!ret && !on)
		ret = write_file(instance, "events/enable", "0", err);
	return ret;
}

int instance_open_ring(struct instance *instance, int cpu, struct error *err)
{
	char file[64];
	int fd;

	snprintf(file, sizeof(file), "per_cpu/cpu%d/trace_pipe_raw", cpu);
	fd = openat(instance->dir, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return fail(err, errno, "cannot open %s/%s: %s", instance_name(instance), file,
			    strerror(errno));
	return fd;
}

int instance_ring_stats(struct instance *instance, int cpu, struct ring_stats *out,
			struct error *err)
{
	if (ring_stats_read(instance->dir, cpu, out))
		return fail(err, EIO, "cannot read %s/per_cpu/cpu%d/stats", instance_name(instance),
			    cpu);
	return 0;
}

/* The start of a file of the instance, as a string; false if it cannot be read. */
static bool read_text(const struct instance *instance, const char *file, char text[256])
{
	int fd = openat(instance->dir, file, O_RDONLY | O_CLOEXEC);
	ssize_t size = -1;

	if (fd >= 0) {
		size = read(fd, text, 255);
		close(fd);
	}
	text[size > 0 ? size : 0] = '\0';
	return size > 0;
}

void instance_look(const struct instance *instance, struct instance_state *out)
{
	char text[256];

	*out = (struct instance_state){.subbuf_bytes = (size_t)sysconf(_SC_PAGESIZE)};
	out->exists = read_text(instance, "tracing_on", text);
	out->on = text[0] == '1';
	out->clock = read_text(instance, "trace_clock", text) && strstr(text, "[mono]");
	if (read_text(instance, "buffer_size_kb", text))
		out->ring_bytes = strtoul(text, NULL, 10) * 1024;
	if (read_text(instance, "buffer_subbuf_size_kb", text))
		out->subbuf_bytes = strtoul(text, NULL, 10) * 1024;
}

bool instance_is_enabled(const struct instance *instance, const char *system, const char *event)
{
	char file[160], text[256];

	snprintf(file, sizeof(file), "events/%s/%s/enable", system, event);
	return read_text(instance, file, text) && text[0] == '1';
}
