// SPDX-License-Identifier: Apache-2.0
/*
 * reserve.c - compile units on tmpfs that swap, beside requests of order 1 that cannot wait.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "load.h"
#include "roles.h"
#include "undo.h"

enum { PING = 7000, BURST = 256, UNREAD = 8 << 20 };

/* Swap space on a file of our own, with the header that mkswap writes. */
static void swap_on(const char *path, size_t size)
{
	int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	struct {
		char boot[1024];
		uint32_t version, last_page, nr_bad;
		char rest[PAGE - 1024 - 12 - 10];
		char magic[10];
	} head = {.version = 1, .last_page = (uint32_t)(size / PAGE) - 1};

	memcpy(head.magic, "SWAPSPACE2", sizeof(head.magic));
	if (fd < 0 || posix_fallocate(fd, 0, (off_t)size) ||
	    pwrite(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || fsync(fd))
		die("%s", path);
	close(fd);
	undo_add(MADE_SWAP, path, NULL);
	if (swapon(path, 0))
		die("swapon %s: give a --dir on ext4 or xfs, or switch on %lu MB of swap", path,
		    size / MIB);
}

static void prepare(struct load *load)
{
	char place[PATH_MAX - 16], path[PATH_MAX], options[48];
	struct sysinfo info;

	if (geteuid()) {
		errno = 0;
		die("reserve needs root: it mounts a tmpfs and switches swap on");
	}
	if (!getcwd(place, sizeof(place)) || sysinfo(&info))
		die("getcwd");
	snprintf(path, sizeof(path), "%s/tmpfs", place);
	snprintf(options, sizeof(options), "size=%lu,mode=0700", load->memory);
	if (mkdir(path, 0700))
		die("%s", path);
	undo_add(MADE_MOUNT, path, NULL);
	if (mount("pagetape-load", path, "tmpfs", MS_NOSUID | MS_NODEV, options))
		die("mount %s", path);
	if (info.freeswap * info.mem_unit < load->memory) {
		snprintf(path, sizeof(path), "%s/swap", place);
		swap_on(path, load->memory);
	}
	if (available() > 2 * load->memory)
		snprintf(load->note, sizeof(load->note),
			 "no pressure: %lu MB are available for a budget of %lu MB; see --leave",
			 available() / MIB, load->memory / MIB);
}

/* Reads its source, faults memory, writes its output: files of the tmpfs. */
static void unit(struct load *load)
{
	size_t size = load->memory / 4 / (size_t)load->threads;
	char *area = map(size), name[32];

	touch(area, size, load);
	snprintf(name, sizeof(name), "tmpfs/%d", rand_r(&load->seed) % 8);
	file_io(name, size, false);
	file_io(name, size, true);
}

static void build(struct load *load)
{
	struct sample about = {.node = -1, .order = -1};

	while (!over(load)) {
		uint64_t begin = now_ns();
		pid_t child = fork_bound();

		rand_r(&load->seed);
		if (!child) {
			unit(load);
			_exit(0);
		}
		if (child < 0 || waitpid(child, NULL, 0) < 0)
			die("fork");
		about.ns = now_ns() - begin;
		add_sample(load, UNIT, begin, about);
	}
}

/*
 * Bursts of pings to ourselves. The kernel answers each in a soft interrupt: a buffer of 8 KiB that
 * cannot wait: its slab asks for order 3, and for order 1 if there is none. The answers of a burst
 * stay unread, so that each burst needs new pages.
 */
static void ping(struct load *load)
{
	static char buf[PING];
	struct icmphdr *head = (struct icmphdr *)buf;
	struct sample about = {.node = -1, .order = -1};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int unread = UNREAD,
	    fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMP);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &unread, sizeof(unread)))
		die("127.0.0.1");
	while (!over(load)) {
		uint64_t begin = now_ns();

		for (int i = 0; i < BURST; i++) {
			*head = (struct icmphdr){.type = ICMP_ECHO};
			head->checksum = (uint16_t)~htons(ICMP_ECHO << 8);
			if (send(fd, buf, sizeof(buf), 0) < 0 && errno != EAGAIN &&
			    errno != ENOBUFS)
				die("ping 127.0.0.1");
		}
		about.ns = (now_ns() - begin) / BURST;
		add_sample(load, SEND, begin, about);
		while (recv(fd, buf, sizeof(buf), 0) > 0)
			;
		usleep(5000);
	}
}

/* Processes that end at once: their stacks and page tables are requests that may sleep. */
static void end_at_once(struct load *load)
{
}

static void churn_stacks(struct load *load)
{
	churn_children(load, 16, end_at_once);
}

const struct load_kind reserve_load = {
	.name = "reserve",
	.doc = "compile units on tmpfs that swap, beside requests of order 1 (MIGRATE_RESERVE)",
	.keeps = "units that fault memory, and read and write in a tmpfs of three quarters of the "
		 "budget, with swap of its size; bursts of pings of 7 KB over loopback, whose "
		 "answers are atomic requests of 8 KiB; short-lived processes (stacks)",
	.leaves_out = "the machine of 2001 and its allocators of small objects; pressure of the "
		      "whole machine, unless --leave or a small guest makes it. Needs root",
	.sampled = "unit, and send (mean of a burst of 256)",
	.roles = {{build, "build", PER_THREAD}, {ping, "send", 1}, {churn_stacks, "stacks", 1}},
	.prepare = prepare,
	.disk = 150,
};
