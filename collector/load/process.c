// SPDX-License-Identifier: Apache-2.0
/* process.c - what every process of a load uses; load.h has the contract. */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

const char *const sample_names[NR_SAMPLE_NAMES] = {
	[FAULT] = "fault",           [TOUCH] = "touch", [READ] = "read", [WRITE] = "write",
	[ALLOCATION] = "allocation", [UNIT] = "unit",   [SEND] = "send",
};

volatile sig_atomic_t ended;

uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

double now(void)
{
	return (double)now_ns() / 1e9;
}

bool over(const struct load *load)
{
	return ended || now() >= load->end;
}

void die(const char *format, ...)
{
	int error = errno;
	va_list args;
	char words[512];

	va_start(args, format);
	vsnprintf(words, sizeof(words), format, args);
	va_end(args);
	fprintf(stderr, "pagetape load: %s%s%s\n", words, error ? ": " : "",
		error ? strerror(error) : "");
	exit(1);
}

unsigned long available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
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

char *map(size_t size)
{
	char *area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		die("mmap of %zu bytes", size);
	return area;
}

void add_sample(struct load *load, enum sample_name name, uint64_t begin, struct sample about)
{
	struct samples *to = load->samples;
	uint32_t nr = atomic_load(&to->nr);

	if (nr == SAMPLES_EACH) {
		atomic_fetch_add(&to->left_out, 1);
		return;
	}
	about.ts = begin;
	about.name = (uint8_t)name;
	about.cpu = (uint16_t)sched_getcpu();
	to->rows[nr] = about;
	atomic_store(&to->nr, nr + 1);
}

pid_t fork_bound(void)
{
	pid_t parent = getpid(), child = fork();

	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* it died before the call */
		_exit(1);
	return 0;
}

void wait_until_made(struct load *load, int processes)
{
	if (atomic_fetch_add(&load->shared->ready, 1) + 1 == processes)
		atomic_store(&load->shared->made, now_ns());
	while (!atomic_load(&load->shared->made) && !over(load))
		usleep(1000);
}

long read_number(const char *file)
{
	FILE *opened = fopen(file, "re");
	long number = -1;

	if (opened) {
		if (fscanf(opened, "%ld", &number) != 1)
			number = -1;
		fclose(opened);
	}
	return number;
}

int write_text(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		error = -errno;
	close(fd);
	return error;
}
