// SPDX-License-Identifier: Apache-2.0
#include "proc_reader.h"

#include "input/thread.h"

#include <errno.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

#define SECOND 1000000000ull

enum {
	STACK = 256 << 10,     /* the thread-local storage of all libraries lies there too */
	PART = 32 << 10,       /* bytes of one read() of a file that comes in parts */
	GRACE_NS = 1000000000, /* CPU time that may be spent before any share counts */
	LONGEST_WAIT_S = 3600, /* without anything to do */
	LOOK_NS = 10000000,    /* from one reading of sysctls to the next that a write causes */
};

struct proc_reader {
	size_t bytes; /* of this mapping: the struct, the slots and the stack */
	unsigned nr_files, nr_slots;
	size_t slot_bytes;
	struct proc_file *files;
	char *slots, *stack;
	pthread_t thread;
	unsigned guards;

	int wake;     /* eventfd: there is something to do for the thread, */
	int ready;    /* a reading to take, */
	int answered; /* the reading that was asked for, or none */
	int written;  /* inotify: a sysctl was written; -1: this kernel has none */

	_Atomic bool stopping, held;
	_Atomic uint64_t period, share_ppm, started, charged;
	_Atomic uint32_t asked, served;
	_Atomic int answer;
	_Atomic uint64_t busy_since;
	_Atomic uint32_t head, tail; /* slots written and slots free again, ever */

	/* Of the thread alone. */
	uint64_t due, period_of_due;
	uint64_t looked; /* end of the last reading */
	uint32_t missed[NR_PROC_MISSED];
};

static void signal_event(int fd)
{
	uint64_t one = 1;

	/* Fails only if the counter is full: then the event is signalled already. */
	if (write(fd, &one, sizeof(one)) < 0)
		return;
}

static void clear_event(int fd)
{
	uint64_t count;

	if (read(fd, &count, sizeof(count)) < 0)
		return; /* not signalled */
}

static void wait_event(int fd, uint64_t ns)
{
	struct timespec ts = {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
	struct pollfd event = {.fd = fd, .events = POLLIN};

	if (ppoll(&event, 1, &ts, NULL) > 0)
		clear_event(fd);
}

/* Wait for something to do, or for a write to a sysctl. */
static void wait_for_work(struct proc_reader *r, uint64_t ns)
{
	struct timespec ts = {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
	struct pollfd events[] = {
		{.fd = r->wake, .events = POLLIN},
		{.fd = r->written, .events = POLLIN}, /* ignored if it is -1 */
	};

	if (ppoll(events, 2, &ts, NULL) > 0 && events[0].revents)
		clear_event(r->wake);
}

static struct proc_reading *slot_of(const struct proc_reader *r, uint32_t nr)
{
	return (struct proc_reading *)(r->slots + r->slot_bytes * (nr % r->nr_slots));
}

static void read_text(const struct proc_file *file, struct proc_text *text, char *room)
{
	ssize_t got;

	text->bytes = room;
	text->length = 0;
	text->began = monotonic_ns();
	do {
		size_t left = file->size - text->length;

		got = pread(file->fd, room + text->length, left < PART ? left : PART, text->length);
		if (got > 0)
			text->length += got;
	} while (got > 0 && !file->sysctl && text->length < file->size);
	if (got < 0)
		text->length = -errno;
	else if (text->length == file->size)
		text->length = -EFBIG;
	text->ended = monotonic_ns();
}

/* Read all files into the next slot, or the sysctls alone; -ENOBUFS. */
static int read_files(struct proc_reader *r, bool whole)
{
	uint32_t head = atomic_load(&r->head);
	struct proc_reading *reading = slot_of(r, head);
	char *room = (char *)&reading->texts[r->nr_files];

	if (head - atomic_load(&r->tail) == r->nr_slots) {
		r->missed[PROC_MISSED_FULL] += whole;
		return -ENOBUFS;
	}
	atomic_store(&r->busy_since, monotonic_ns());
	for (unsigned i = 0; i < r->nr_files; i++) {
		if (whole || r->files[i].sysctl)
			read_text(&r->files[i], &reading->texts[i], room);
		else
			reading->texts[i] = (struct proc_text){.length = -ECANCELED};
		room += r->files[i].size;
	}
	memset(reading->missed, 0, sizeof(reading->missed));
	if (whole) {
		memcpy(reading->missed, r->missed, sizeof(r->missed));
		memset(r->missed, 0, sizeof(r->missed));
	}
	r->looked = monotonic_ns();
	atomic_store(&r->head, head + 1);
	atomic_store(&r->busy_since, 0);
	signal_event(r->ready);
	return 0;
}

/* Whether the readings took more than their share so far. */
static bool costs_too_much(const struct proc_reader *r)
{
	uint64_t spent = clock_ns(CLOCK_THREAD_CPUTIME_ID) + atomic_load(&r->charged);
	uint64_t ran = monotonic_ns() - atomic_load(&r->started);

	return spent > GRACE_NS + ran / 1000000 * atomic_load(&r->share_ppm);
}

/* Read if a regular reading is due. */
static void read_if_due(struct proc_reader *r)
{
	uint64_t at = monotonic_ns();

	if (!r->due || at < r->due)
		return;
	r->missed[PROC_MISSED_LATE] += (at - r->due) / r->period_of_due;
	r->due += ((at - r->due) / r->period_of_due + 1) * r->period_of_due;
	if (atomic_load(&r->held))
		r->missed[PROC_MISSED_LATE]++;
	else if (costs_too_much(r)) {
		r->missed[PROC_MISSED_THINNED]++;
		read_files(r, false);
	} else {
		read_files(r, true);
	}
}

/*
 * Read the sysctls if one was written. Several writes within LOOK_NS are one look. A quarter of the
 * queue stays free for the regular readings. Returns when to look again, 0: only after a write.
 */
static uint64_t read_if_written(struct proc_reader *r, uint64_t again)
{
	char events[512];
	uint32_t waiting = atomic_load(&r->head) - atomic_load(&r->tail);

	while (r->written >= 0 && read(r->written, events, sizeof(events)) > 0)
		again = r->looked + LOOK_NS;
	if (!again || !r->due || monotonic_ns() < again)
		return again;
	if (!atomic_load(&r->held) && waiting < r->nr_slots * 3 / 4)
		read_files(r, false);
	return 0;
}

static unsigned take_rights(void)
{
	struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
	unsigned guards = 0;

	if (!sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest))
		guards |= PROC_READER_REALTIME;
	if (!prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		guards |= PROC_READER_NOIO;
	return guards;
}

static void *run(void *arg)
{
	struct proc_reader *r = arg;

	uint64_t again = 0, until;

	r->guards |= take_rights();
	while (!atomic_load(&r->stopping)) {
		uint64_t period = atomic_load(&r->period), at, wait;

		if (period && !r->due) {
			r->period_of_due = period;
			r->due = atomic_load(&r->started) + period;
		}
		if (atomic_load(&r->asked) != atomic_load(&r->served)) {
			atomic_store(&r->answer, read_files(r, true));
			atomic_fetch_add(&r->served, 1);
			signal_event(r->answered);
		}
		read_if_due(r);
		again = read_if_written(r, again);
		at = monotonic_ns();
		until = again && again < r->due ? again : r->due;
		wait = until > at ? until - at : 0;
		wait_for_work(r, r->due ? wait : LONGEST_WAIT_S * SECOND);
	}
	return NULL;
}

/* Lock the code that the thread runs: that of this file and of the C library. */
static int lock_code(struct dl_phdr_info *object, size_t size, void *arg)
{
	uintptr_t own[] = {(uintptr_t)read_text, (uintptr_t)pread};
	long page = sysconf(_SC_PAGESIZE);
	bool *locked = arg, is_ours = false;

	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + part->p_vaddr;

		for (size_t j = 0; part->p_type == PT_LOAD && j < 2; j++)
			is_ours |= own[j] >= start && own[j] - start < part->p_memsz;
	}
	for (int i = 0; is_ours && i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &object->dlpi_phdr[i];
		uintptr_t start = object->dlpi_addr + part->p_vaddr;
		uintptr_t first = start & ~(page - 1);

		if (part->p_type == PT_LOAD && mlock((void *)first, start + part->p_memsz - first))
			*locked = false;
	}
	return 0;
}

/* A sysctl that cannot be watched is read at each period. */
static void watch_sysctls(struct proc_reader *r)
{
	char path[64];

	for (unsigned i = 0; r->written >= 0 && i < r->nr_files; i++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", r->files[i].fd);
		if (r->files[i].sysctl)
			inotify_add_watch(r->written, path, IN_MODIFY);
	}
}

/* Start the thread on the stack in the mapping, without any signal. */
static int start_thread(struct proc_reader *r)
{
	pthread_attr_t attr;
	int ret;

	pthread_attr_init(&attr);
	ret = pthread_attr_setstack(&attr, r->stack, STACK);
	return ret ?: thread_start(&r->thread, &attr, run, r);
}

static size_t aligned(size_t bytes, size_t to)
{
	return (bytes + to - 1) / to * to;
}

static struct proc_reader *map_reader(const struct proc_file *files, unsigned nr_files,
				      unsigned slots)
{
	size_t texts = sizeof(struct proc_reading) + nr_files * sizeof(struct proc_text);
	size_t page = sysconf(_SC_PAGESIZE), head, bytes;
	struct proc_reader *r;

	for (unsigned i = 0; i < nr_files; i++)
		texts += files[i].size;
	texts = aligned(texts, sizeof(uint64_t));
	head = aligned(sizeof(*r) + nr_files * sizeof(*files), page);
	bytes = head + STACK + aligned(slots * texts, page);
	r = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_STACK, -1, 0);
	if (r == MAP_FAILED)
		return NULL;
	r->bytes = bytes;
	r->nr_files = nr_files;
	r->nr_slots = slots;
	r->slot_bytes = texts;
	r->files = (struct proc_file *)(r + 1);
	r->stack = (char *)r + head;
	r->slots = r->stack + STACK;
	memcpy(r->files, files, nr_files * sizeof(*files));
	return r;
}

static void unmap_reader(struct proc_reader *r)
{
	int events[] = {r->wake, r->ready, r->answered, r->written};

	for (int i = 0; i < 4; i++)
		if (events[i] >= 0)
			close(events[i]);
	munmap(r, r->bytes);
}

int proc_reader_new(struct proc_reader **out, const struct proc_file *files, unsigned nr_files,
		    unsigned slots, struct error *err)
{
	struct proc_reader *r = map_reader(files, nr_files, slots);
	bool locked = true;
	int ret;

	if (!r)
		return fail(err, ENOMEM, "no memory for readings of /proc");
	r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->answered = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->written = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	watch_sysctls(r);
	if (r->wake < 0 || r->ready < 0 || r->answered < 0) {
		ret = errno;
		unmap_reader(r);
		return fail(err, ret, "no event for readings of /proc: %s", strerror(ret));
	}
	/* After a fork, the first write to each page would need a page of memory. */
	madvise(r, r->bytes, MADV_DONTFORK);
	if (mlock(r, r->bytes))
		locked = false;
	dl_iterate_phdr(lock_code, &locked);
	r->guards = locked ? PROC_READER_LOCKED : 0;
	ret = start_thread(r);
	if (ret) {
		unmap_reader(r);
		return fail(err, ret, "no thread for readings of /proc: %s", strerror(ret));
	}
	/* The first reading makes the kernel's buffers grow, and resolves the functions called. */
	if (!proc_reader_ask(r))
		proc_reader_drop(r);
	*out = r;
	return 0;
}

void proc_reader_free(struct proc_reader *r)
{
	if (!r)
		return;
	atomic_store(&r->stopping, true);
	signal_event(r->wake);
	pthread_join(r->thread, NULL);
	unmap_reader(r);
}

unsigned proc_reader_guards(const struct proc_reader *r)
{
	return r->guards;
}

void proc_reader_start(struct proc_reader *r, uint64_t period_ns, uint32_t share_ppm)
{
	atomic_store(&r->share_ppm, share_ppm);
	atomic_store(&r->started, monotonic_ns());
	atomic_store(&r->period, period_ns);
	signal_event(r->wake);
}

void proc_reader_charge(struct proc_reader *r, uint64_t ns)
{
	atomic_fetch_add(&r->charged, ns);
}

void proc_reader_hold(struct proc_reader *r, bool held)
{
	atomic_store(&r->held, held);
}

int proc_reader_ask(struct proc_reader *r)
{
	uint32_t mine = atomic_fetch_add(&r->asked, 1) + 1;

	signal_event(r->wake);
	while ((int32_t)(atomic_load(&r->served) - mine) < 0)
		wait_event(r->answered, SECOND);
	return atomic_load(&r->answer);
}

void proc_reader_wait(struct proc_reader *r, int ms)
{
	if (!proc_reader_peek(r))
		wait_event(r->ready, ms * (SECOND / 1000));
}

void proc_reader_nudge(struct proc_reader *r)
{
	signal_event(r->ready);
}

const struct proc_reading *proc_reader_peek(struct proc_reader *r)
{
	uint32_t tail = atomic_load(&r->tail);

	return tail == atomic_load(&r->head) ? NULL : slot_of(r, tail);
}

void proc_reader_drop(struct proc_reader *r)
{
	atomic_fetch_add(&r->tail, 1);
}

uint64_t proc_reader_busy_since(struct proc_reader *r)
{
	return atomic_load(&r->busy_since);
}
