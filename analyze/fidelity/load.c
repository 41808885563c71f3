// SPDX-License-Identifier: Apache-2.0
/*
 * load NAME SECONDS [DIRECTORY] - a load on the page allocator during a recording.
 *
 *   storm    on every CPU a process that maps 1 MiB, touches it and unmaps it
 *   grow     two processes that grow to 700 MiB and shrink again, two with file I/O
 *   pipes    800 MiB of pipe buffers, which cannot be moved, filled and emptied
 *   extfrag  more small files than memory holds, read at random, amid short-lived
 *            processes, directory entries, pipe buffers and transparent huge pages
 *   pressure two processes that need more memory than there is and swap, amid files,
 *            directory entries, short-lived processes and pipe buffers
 *   huge     the same with transparent huge pages
 *   hog      pins memory until MB (in place of SECONDS) are left, then prints a line
 *            and holds the memory until it is terminated
 *
 * The files stay in DIRECTORY: a quarter of a gigabyte for `grow`, one and a half times the
 * available memory for the others. Every process ends after SECONDS, or with the first
 * process. If memory runs out, the OOM killer picks these processes first.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB       (1ul << 20)
#define PAGE      4096ul
#define FILE_SIZE 65536ul
enum { FILES_PER_DIRECTORY = 1024, PIPE_MIB = 800 };

struct load {
	double end; /* on CLOCK_MONOTONIC */
	const char *directory;
	unsigned long available; /* bytes, before the load */
	unsigned int seed;       /* of this process */
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool over(const struct load *load)
{
	return ended || now() >= load->end;
}

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Bytes of memory available without swapping. */
static unsigned long available(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	unsigned long kib = 0;
	char line[128];

	if (!file)
		die("/proc/meminfo");
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %lu", &kib) == 1)
			break;
	fclose(file);
	return kib << 10;
}

static char *map(size_t size)
{
	char *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		die("mmap");
	return area;
}

static void touch(char *area, size_t size, const struct load *load)
{
	for (size_t i = 0; i < size; i += PAGE) {
		area[i] = 1;
		if (!(i % MIB) && over(load))
			return;
	}
}

/* Write or read the file of that name, page by page; 0, or -errno. */
static int file_io(const char *name, size_t size, bool write_it)
{
	static char page[PAGE];
	int fd = open(name, write_it ? O_CREAT | O_WRONLY | O_TRUNC : O_RDONLY, 0600);

	if (fd < 0)
		return -errno;
	for (size_t at = 0; at < size; at += PAGE) {
		ssize_t done = write_it ? write(fd, page, PAGE) : read(fd, page, PAGE);

		if (done != (ssize_t)PAGE)
			break;
	}
	close(fd);
	return 0;
}

static void storm(struct load *load)
{
	while (!over(load)) {
		char *area = map(MIB);

		touch(area, MIB, load);
		munmap(area, MIB);
	}
}

static void grow_memory(struct load *load)
{
	const size_t size = 700 * MIB;

	while (!over(load)) {
		char *area = map(size);

		touch(area, size, load);
		/* Shrinks from the end, in steps, as a heap does. */
		for (size_t left = size; left && !over(load); left -= 10 * MIB)
			madvise(area + left - 10 * MIB, 10 * MIB, MADV_DONTNEED);
		munmap(area, size);
	}
}

/* Two of these, with the rest of the load, need more memory than there is. */
static void grow_beyond(struct load *load)
{
	size_t size = load->available * 2 / 5 & ~(MIB - 1);

	while (!over(load)) {
		char *area = map(size);

		touch(area, size, load);
		for (size_t hole = 0; hole < size && !over(load); hole += 4 * MIB)
			madvise(area + hole, MIB, MADV_DONTNEED);
		touch(area, size, load);
		munmap(area, size);
	}
}

static void grow_files(struct load *load)
{
	char name[32];

	while (!over(load))
		for (int i = 0; i < 16 && !over(load); i++) {
			snprintf(name, sizeof(name), "grow.%u.%d", load->seed, i);
			file_io(name, 16 * MIB, true);
			file_io(name, 16 * MIB, false);
			if (i % 2)
				unlink(name);
		}
}

/* Fill pipes with `size` bytes and close them, repeatedly. */
static void churn_pipes(struct load *load, size_t size)
{
	static char buf[MIB];
	size_t nr = size / MIB;
	int (*pipes)[2] = calloc(nr, sizeof(*pipes));

	if (!pipes)
		die("pipes");
	while (!over(load)) {
		size_t made = 0;

		for (; made < nr && !over(load); made++) {
			if (pipe2(pipes[made], O_NONBLOCK))
				break;
			fcntl(pipes[made][1], F_SETPIPE_SZ, (int)MIB);
			if (write(pipes[made][1], buf, sizeof(buf)) < 0 && errno != EAGAIN)
				die("pipe");
		}
		/* Every other pipe first, to leave fragmented free memory. */
		for (int odd = 0; odd < 2; odd++)
			for (size_t i = (size_t)odd; i < made; i += 2) {
				close(pipes[i][0]);
				close(pipes[i][1]);
			}
	}
	free(pipes);
}

static void pipes(struct load *load)
{
	churn_pipes(load, PIPE_MIB * MIB);
}

static void small_pipes(struct load *load)
{
	churn_pipes(load, 64 * MIB);
}

static void file_name(char *name, size_t size, unsigned int writer, unsigned int file)
{
	snprintf(name, size, "files.%u.%u/%u", writer, file / FILES_PER_DIRECTORY, file);
}

/* Small files, one and a half times as many as memory holds, from two writers. */
static void write_files(struct load *load)
{
	unsigned int nr = (unsigned int)(load->available / 2 * 3 / 2 / FILE_SIZE);
	char name[48];

	for (unsigned int i = 0; i < nr && !over(load); i++) {
		if (i % FILES_PER_DIRECTORY == 0) {
			snprintf(name, sizeof(name), "files.%u.%u", load->seed,
				 i / FILES_PER_DIRECTORY);
			if (mkdir(name, 0700))
				die(name);
		}
		file_name(name, sizeof(name), load->seed, i);
		if (file_io(name, FILE_SIZE, true))
			die(name);
	}
}

/* Read the files written so far, at random. */
static void read_files(struct load *load)
{
	unsigned int nr = (unsigned int)(load->available / 2 * 3 / 2 / FILE_SIZE);
	char name[48];

	while (!over(load)) {
		file_name(name, sizeof(name), (unsigned int)(rand_r(&load->seed) % 2),
			  (unsigned int)rand_r(&load->seed) % nr);
		if (file_io(name, FILE_SIZE, false))
			usleep(1000);
	}
}

/* Directory entries and inodes: reclaimable slab pages. */
static void churn_entries(struct load *load)
{
	char name[32];

	mkdir("entries", 0700);
	while (!over(load)) {
		for (int i = 0; i < 20000 && !over(load); i++) {
			snprintf(name, sizeof(name), "entries/%d", i);
			close(open(name, O_CREAT | O_WRONLY, 0600));
		}
		for (int i = 0; i < 20000; i++) {
			snprintf(name, sizeof(name), "entries/%d", i);
			unlink(name);
		}
	}
}

/* Short-lived processes: stacks, page tables, all unmovable. */
static void churn_processes(struct load *load)
{
	pid_t children[16];

	while (!over(load)) {
		int nr = 0;

		for (; nr < 16; nr++) {
			children[nr] = fork();
			if (children[nr] < 0)
				break;
			if (!children[nr]) {
				touch(map(MIB), MIB / 8, load);
				_exit(0);
			}
		}
		while (nr--)
			waitpid(children[nr], NULL, 0);
	}
}

static void churn_huge(struct load *load)
{
	size_t size = load->available / 4 & ~(2 * MIB - 1);

	while (!over(load)) {
		char *area = map(size);

		madvise(area, size, MADV_HUGEPAGE);
		touch(area, size, load);
		munmap(area, size);
	}
}

/* Pin memory until `left` bytes are available. */
static int hog(size_t left)
{
	size_t size = available();
	char *area;

	if (size > left) {
		size = (size - left) & ~(2 * MIB - 1);
		area = map(size);
		madvise(area, size, MADV_HUGEPAGE);
		for (size_t i = 0; i < size && !ended; i += PAGE)
			area[i] = 1;
	}
	puts("ready");
	fflush(stdout);
	while (!ended)
		pause();
	return 0;
}

typedef void (*role)(struct load *load);

static void spawn(struct load *load, role role, unsigned int seed, int cpu)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		die("fork");
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	if (cpu >= 0) {
		cpu_set_t set;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		sched_setaffinity(0, sizeof(set), &set);
	}
	load->seed = seed;
	role(load);
	_exit(0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		role roles[10];
	} loads[] = {
		{"storm", {storm}},
		{"grow", {grow_memory, grow_memory, grow_files, grow_files}},
		{"pipes", {pipes}},
		{"extfrag",
		 {write_files, write_files, read_files, read_files, churn_entries, churn_processes,
		  churn_huge, small_pipes}},
		{"pressure",
		 {write_files, write_files, read_files, churn_entries, churn_processes, grow_beyond,
		  grow_beyond, small_pipes}},
		{"huge",
		 {write_files, write_files, read_files, churn_huge, churn_huge, grow_beyond,
		  churn_processes, small_pipes}},
	};
	const struct rlimit files = {65536, 65536};
	struct load load = {.available = available()};
	struct sigaction action = {.sa_handler = on_signal};
	FILE *first;
	int known = 0, status, failed = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: load NAME SECONDS [DIRECTORY]\n");
		return 2;
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	setrlimit(RLIMIT_NOFILE, &files);
	first = fopen("/proc/self/oom_score_adj", "w");
	if (first) {
		fputs("1000", first);
		fclose(first);
	}
	if (!strcmp(argv[1], "hog"))
		return hog(strtoul(argv[2], NULL, 10) * MIB);
	if (argc > 3 && chdir(argv[3]))
		die(argv[3]);
	load.end = now() + atof(argv[2]);
	if (!strcmp(argv[1], "extfrag") && nice(5) < 0) /* the recorder has to keep up */
		die("nice");
	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		if (strcmp(loads[i].name, argv[1]))
			continue;
		known = 1;
		if (loads[i].roles[0] == storm)
			for (int cpu = 0; cpu < (int)sysconf(_SC_NPROCESSORS_ONLN); cpu++)
				spawn(&load, storm, 0, cpu);
		else
			for (unsigned int r = 0; loads[i].roles[r]; r++)
				spawn(&load, loads[i].roles[r], r, -1);
	}
	if (!known) {
		fprintf(stderr, "load: no load named '%s'\n", argv[1]);
		return 2;
	}
	while (!ended && (wait(&status) > 0 || errno == EINTR))
		failed |= WIFEXITED(status) && WEXITSTATUS(status);
	return failed;
}
