// SPDX-License-Identifier: Apache-2.0
/*
 * pagetape-load NAME [OPTIONS] - the loads of `pagetape load`, and those of the laboratory.
 *
 * NAME is a load, or several joined by '+'. This process supervises: it makes a directory for the
 * files, starts the processes of the load, and at the end prints a summary and undoes every change.
 * The processes die with it; after a kill, --clean or the next load undoes the rest (undo.h).
 *
 *   hog LEFT   pins memory until LEFT MB are available, prints "ready", and holds it until it is
 *              terminated
 *
 * Exit status: 0, 1 after a failure, 2 for bad usage, 3 if memory or disk is too short, or 128 and
 * the number of the signal that ended it.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "load.h"
#include "summary.h"
#include "undo.h"

enum { DEFAULT_S = 60, MOST_MIB = 4096, MOST_LOADS = 8, GRACE_S = 10, TOO_SHORT = 3 };

static const struct load_kind *const public_loads[] = {
	&fioscale_load, &simoop_load, &kbuild_load, &extfrag_load, &reserve_load, &seek_load, NULL,
};

struct options {
	unsigned long memory, leave; /* bytes; 0: the default, none */
	double seconds;
	const char *directory;
	unsigned int seed;
	int threads;
	bool json, clean;
};

struct child {
	pid_t pid; /* 0: it has ended */
	const char *name;
};

static struct child children[MOST_PROCESSES];
static int nr_children;
static pid_t pinning; /* the process of --leave */
static volatile sig_atomic_t ended_by;

static void on_signal(int number)
{
	ended = 1;
	ended_by = number;
}

static void on_child(int number)
{
	/* it ends a sleep */
}

__attribute__((noreturn, format(printf, 2, 3))) static void refuse(int status, const char *format,
								   ...)
{
	va_list args;

	fputs("pagetape load: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

/* Pin memory until `left` bytes are available; false if a signal came. */
static bool pin(size_t left)
{
	const size_t step = 64 * MIB;

	while (!ended && available() > left + step) {
		char *area = map(step);

		madvise(area, step, MADV_HUGEPAGE);
		if (madvise(area, step, MADV_POPULATE_WRITE))
			for (size_t at = 0; at < step && !ended; at += PAGE)
				area[at] = 1;
	}
	return !ended;
}

static int hog(const char *left)
{
	char *end;
	unsigned long mib = strtoul(left, &end, 10);

	if (*end || end == left)
		refuse(2, "hog: '%s' is not a number of MB", left);
	write_text("/proc/self/oom_score_adj", "1000");
	if (pin(mib * MIB))
		puts("ready");
	fflush(stdout);
	while (!ended)
		pause();
	return 0;
}

static const struct load_kind *find(const char *name)
{
	for (int i = 0; public_loads[i]; i++)
		if (!strcmp(public_loads[i]->name, name))
			return public_loads[i];
	for (int i = 0; lab_loads[i].name; i++)
		if (!strcmp(lab_loads[i].name, name))
			return &lab_loads[i];
	refuse(2,
	       "no load named '%s'; there are fioscale, simoop, kbuild, extfrag, reserve and seek",
	       name);
}

static unsigned long number_of(const char *option, const char *text, unsigned long least,
			       unsigned long most)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*end || end == text || *text == '-' || number < least || number > most)
		refuse(2, "--%s: '%s' is not a number from %lu to %lu", option, text, least, most);
	return number;
}

static double seconds_of(const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (*end || end == text || !(seconds >= 0.1 && seconds <= 1e6))
		refuse(2, "--seconds: '%s' is not a number from 0.1 to 1000000", text);
	return seconds;
}

static struct options parse(int argc, char **argv)
{
	static const struct option known[] = {
		{"memory", required_argument, NULL, 'm'},
		{"seconds", required_argument, NULL, 's'},
		{"dir", required_argument, NULL, 'd'},
		{"seed", required_argument, NULL, 'r'},
		{"leave", required_argument, NULL, 'l'},
		{"threads", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"clean", no_argument, NULL, 'c'},
		{0},
	};
	struct options o = {.seconds = DEFAULT_S, .directory = "/var/tmp", .seed = 1};
	int c, i = 0;

	while ((c = getopt_long(argc, argv, "", known, &i)) != -1) {
		const char *name = c == '?' ? "" : known[i].name;

		if (c == '?')
			exit(2);
		if (c == 'm')
			o.memory = number_of(name, optarg, 16, 1ul << 24) * MIB;
		else if (c == 's')
			o.seconds = seconds_of(optarg);
		else if (c == 'd')
			o.directory = optarg;
		else if (c == 'r')
			o.seed = (unsigned int)number_of(name, optarg, 0, UINT_MAX);
		else if (c == 'l')
			o.leave = number_of(name, optarg, 64, 1ul << 24) * MIB;
		else if (c == 't')
			o.threads = (int)number_of(name, optarg, 1, 64);
		o.json |= c == 'j';
		o.clean |= c == 'c';
	}
	if (!o.threads)
		o.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (o.threads > 64)
		o.threads = 64;
	return o;
}

/* Start a process of the load; it does not return in it. */
static void spawn(struct load *load, const struct role *role, const char *name)
{
	pid_t child;

	if (nr_children == MOST_PROCESSES)
		refuse(2, "more than %d processes", MOST_PROCESSES);
	child = fork_bound();
	if (child < 0)
		die("fork");
	if (child) {
		children[nr_children++] = (struct child){child, name};
		return;
	}
	write_text("/proc/self/oom_score_adj", "1000");
	load->seed = load->first_seed + 7919u * (unsigned int)load->nr;
	load->samples = &load->shared->samples[nr_children];
	if (role->name)
		prctl(PR_SET_NAME, role->name);
	role->run(load);
	_exit(0);
}

static void start(struct load *load, const struct load_kind *kind)
{
	load->nr = 0;
	for (const struct role *role = kind->roles; role->run; role++) {
		int number = role->number == PER_THREAD ? load->threads
			     : role->number             ? role->number
							: 1;

		for (load->index = 0; load->index < number; load->index++, load->nr++)
			spawn(load, role, role->name ? role->name : kind->name);
	}
}

static void kill_all(void)
{
	for (int i = 0; i < nr_children; i++)
		if (children[i].pid)
			kill(children[i].pid, SIGKILL);
}

/* Take the processes that have ended; the number that still run. The status of a failure stays. */
static int reap(int *failed, bool tolerant)
{
	int status, left = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < nr_children; i++) {
			if (children[i].pid != pid)
				continue;
			children[i].pid = 0;
			if (WIFEXITED(status) && WEXITSTATUS(status))
				*failed = WEXITSTATUS(status);
			if (!WIFSIGNALED(status) || tolerant || ended)
				continue;
			*failed = 1;
			fprintf(stderr,
				"pagetape load: signal %d ended the process %s (%d): the load "
				"ends\n",
				WTERMSIG(status), children[i].name, pid);
		}
	for (int i = 0; i < nr_children; i++)
		left += children[i].pid != 0;
	return left;
}

static void progress(const struct load *load, const char *name)
{
	unsigned long nr = 0;

	for (int p = 0; p < nr_children; p++)
		nr += load->shared->samples[p].nr;
	fprintf(stderr, "\r%s: %.0f of %.0f s, %lu samples ", name, now() - load->begin,
		load->end - load->begin, nr);
}

/* Wait until all processes have ended, or end them; 0, or the status of a failure. */
static int supervise(const struct load *load, const char *name, bool tolerant)
{
	bool shows = isatty(STDERR_FILENO), stopped = false;
	int failed = 0;

	while (reap(&failed, tolerant || stopped)) {
		if ((ended || failed) && !stopped) {
			kill_all();
			stopped = true;
		}
		if (now() > load->end + GRACE_S && !tolerant && !stopped) {
			load->shared->cut = true;
			kill_all();
			ended = 1; /* the kill is no failure */
			stopped = true;
		}
		if (shows)
			progress(load, name);
		usleep(shows ? 250000 : 20000); /* SIGCHLD ends it */
	}
	if (shows)
		fputs("\r\033[K", stderr);
	return failed;
}

/* The pinned rest of the memory: a process that lives as long as this one. */
static void leave(unsigned long bytes)
{
	int ready[2];
	char mark;

	if (pipe(ready))
		die("pipe");
	pinning = fork_bound();
	if (pinning < 0)
		die("fork");
	if (!pinning) {
		write_text("/proc/self/oom_score_adj", "1000");
		prctl(PR_SET_NAME, "hog");
		if (pin(bytes))
			(void)!write(ready[1], "r", 1);
		close(ready[1]);
		while (!ended)
			pause();
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &mark, 1) != 1)
		refuse(ended_by ? 128 + ended_by : 1, "the memory hog did not start");
	close(ready[0]);
}

/* The budget; exit status 3 if memory or disk is too short for it. */
static unsigned long budget(const struct options *o, bool of_lab, int disk)
{
	unsigned long there = available(), memory = o->memory;
	struct statvfs fs;

	if (!memory && of_lab)
		return there;
	if (!memory)
		memory = (there / 4 < MOST_MIB * MIB ? there / 4 : MOST_MIB * MIB) / MIB * MIB;
	if (memory > there)
		refuse(TOO_SHORT,
		       "memory too short: %lu MB are available, the budget is %lu MB (--memory)",
		       there / MIB, memory / MIB);
	if (statvfs(o->directory, &fs))
		die("%s", o->directory);
	if ((double)fs.f_bavail * (double)fs.f_frsize < (double)memory * disk / 100)
		refuse(TOO_SHORT,
		       "disk too short: %s has %.0f MB free, the load needs %.0f MB (--memory, "
		       "--dir)",
		       o->directory, (double)fs.f_bavail * (double)fs.f_frsize / (double)MIB,
		       (double)memory / (double)MIB * disk / 100);
	return memory;
}

static void enter_directory(const char *above)
{
	char real[PATH_MAX], path[PATH_MAX + 32];

	if (!realpath(above, real))
		die("%s", above);
	snprintf(path, sizeof(path), "%s/pagetape-load.%d", real, getpid());
	undo_add(MADE_DIRECTORY, path, NULL);
	if (mkdir(path, 0700) || chdir(path))
		die("%s", path);
}

static int run(char *names, const struct options *o)
{
	const struct load_kind *kinds[MOST_LOADS];
	const char *samples = getenv("PAGETAPE_SAMPLES");
	struct load load = {.first_seed = o->seed, .threads = o->threads};
	int nr = 0, disk = 0, failed;
	bool of_lab = false;
	char *next = names;

	for (char *name; (name = strsep(&next, "+")) != NULL;) {
		if (nr == MOST_LOADS)
			refuse(2, "more than %d loads", MOST_LOADS);
		kinds[nr] = find(name);
		of_lab |= !kinds[nr]->doc;
		disk += kinds[nr++]->disk;
	}
	if (o->leave)
		leave(o->leave);
	load.memory = budget(o, of_lab, disk);
	enter_directory(o->directory);
	load.shared = mmap(NULL, sizeof(*load.shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (load.shared == MAP_FAILED)
		die("memory for samples");
	load.begin = now();
	load.end = load.begin + o->seconds;
	for (int i = 0; i < nr; i++)
		if (kinds[i]->prepare)
			kinds[i]->prepare(&load);
	load.begin = now();
	load.end = load.begin + o->seconds;
	for (int i = 0; i < nr; i++)
		start(&load, kinds[i]);
	failed = supervise(&load, kinds[0]->name, of_lab);
	if (samples && *samples)
		write_samples(load.shared, nr_children, samples);
	if (ended_by || failed)
		return ended_by ? 128 + ended_by : failed;
	if (!of_lab)
		print_summary(kinds[0], &load, nr_children, o->json);
	return 0;
}

static pid_t supervisor;

static void at_exit(void)
{
	if (getpid() != supervisor) /* a process of the load that failed */
		return;
	kill_all();
	if (pinning > 0)
		kill(pinning, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	if (chdir("/") == 0)
		undo_all();
}

int main(int argc, char **argv)
{
	const struct rlimit files = {65536, 65536};
	struct sigaction action = {.sa_handler = on_signal}, child = {.sa_handler = on_child};
	struct options options;

	for (int i = 0; i < 3; i++)
		sigaction((int[]){SIGINT, SIGTERM, SIGHUP}[i], &action, NULL);
	sigaction(SIGCHLD, &child, NULL);
	signal(SIGPIPE, SIG_DFL);
	setrlimit(RLIMIT_NOFILE, &files);
	if (argc == 3 && !strcmp(argv[1], "hog"))
		return hog(argv[2]);
	argv[0] = (char[]){"pagetape load"}; /* for messages of getopt_long() */
	options = parse(argc, argv);
	if (options.clean) {
		int lists = undo_left(!options.json);

		if (options.json)
			printf("{\"cleaned\": %d}\n", lists);
		else if (!lists)
			puts("nothing to undo: no pagetape load was killed");
		return 0;
	}
	if (optind == argc) {
		print_loads(public_loads);
		return 0;
	}
	if (argc - optind > 1)
		refuse(2, "one load at a time: '%s' is one too many", argv[optind + 1]);
	undo_left(true);
	undo_begin();
	supervisor = getpid();
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* waits for the processes of its processes, too */
	atexit(at_exit);
	return run(argv[optind], &options);
}
