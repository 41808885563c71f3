// SPDX-License-Identifier: Apache-2.0
/*
 * load.h - what the loads share: a process of a load, its budget, its samples.
 *
 * A load is a set of processes. main.c starts and ends them; each runs its role until over().
 * Everything here may be called in any of these processes.
 */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MIB  (1ul << 20)
#define PAGE 4096ul
#define HUGE (2 * MIB)

enum { HUGE_ORDER = 9, MOST_PROCESSES = 256, SAMPLES_EACH = 1 << 16 };

enum sample_name { FAULT, TOUCH, READ, WRITE, ALLOCATION, UNIT, SEND, NR_SAMPLE_NAMES };
extern const char *const sample_names[NR_SAMPLE_NAMES];

/* Flags of a sample: as in schemas/sample_latency.toml. */
enum { HUGE_ASKED = 1, HUGE_GOT = 2 };

struct sample {
	uint64_t ts, ns; /* CLOCK_MONOTONIC */
	int16_t node;    /* of the page; -1: unknown */
	uint16_t cpu;
	uint8_t name;
	int8_t order; /* of the page; -1: unknown */
	uint8_t flags;
};

struct samples {
	_Atomic uint32_t nr, left_out; /* left out: beyond SAMPLES_EACH */
	struct sample rows[SAMPLES_EACH];
};

/* Cost of one access, of a distance class and size of page. */
struct seek_cost {
	int cpu_node, memory_node, distance;
	double thp_ns, base_ns;
};
enum { MOST_COSTS = 64 };

/* Memory of all processes of the load. */
struct shared {
	_Atomic int ready;     /* processes that have made their files */
	_Atomic uint64_t made; /* when the last one had; 0: not yet */
	_Atomic bool cut;      /* time was over before the fixed work was done */
	int nr_costs;
	struct seek_cost costs[MOST_COSTS];
	struct samples samples[MOST_PROCESSES];
};

struct load {
	double begin, end;       /* s, CLOCK_MONOTONIC */
	unsigned long memory;    /* budget of all processes, bytes */
	unsigned int seed;       /* of this process; rand_r() changes it */
	unsigned int first_seed; /* of the load */
	int nr;                  /* number of this process among those of its load */
	int index;               /* number of this process among those of its role */
	int threads;
	struct shared *shared;
	struct samples *samples; /* of this process */
	char note[160];          /* about this machine, for the summary; empty: none */
};

typedef void (*role_fn)(struct load *load);

struct role {
	role_fn run;
	const char *name; /* of its processes; NULL: that of the program */
	int number;       /* of processes; 0: one; PER_THREAD: as many as threads */
};
enum { PER_THREAD = -1 };

struct load_kind {
	const char *name;
	const char *doc; /* NULL: a load of the laboratory, which is not listed */
	const char *keeps, *leaves_out, *sampled;
	struct role roles[12];              /* ends with .run NULL */
	void (*prepare)(struct load *load); /* in the supervisor, in the directory of the load */
	int disk;                           /* bytes on disk, in percent of the budget */
};

extern const struct load_kind fioscale_load, simoop_load, kbuild_load, extfrag_load, reserve_load,
	seek_load;
extern const struct load_kind lab_loads[]; /* ends with .name NULL */

extern volatile sig_atomic_t ended; /* set by a signal */

double now(void);
uint64_t now_ns(void);
bool over(const struct load *load);

/* Print one line about what failed, with errno if it is set; exit status 1. */
__attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...);

/* Bytes of memory available without swapping. */
unsigned long available(void);

/* Anonymous memory; ends the process if there is none. */
char *map(size_t size);

/* Store a value of this process; `begin` in ns. */
void add_sample(struct load *load, enum sample_name name, uint64_t begin, struct sample about);

/* fork() of a process that dies with its parent. */
pid_t fork_bound(void);

/* This process has made its files; wait until all of `processes` have, or it is over. */
void wait_until_made(struct load *load, int processes);

/* The number in the file, or -1. */
long read_number(const char *file);

/* Write the text to the file; 0, or -errno. */
int write_text(const char *file, const char *text);
