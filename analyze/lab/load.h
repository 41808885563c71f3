// SPDX-License-Identifier: Apache-2.0
/* Loads on the page allocator: what load.c starts and load_roles.c does. */
#ifndef LOAD_H
#define LOAD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#define MIB  (1ul << 20)
#define PAGE 4096ul

struct load {
	double end;              /* on CLOCK_MONOTONIC */
	unsigned long available; /* bytes, before the load */
	unsigned int seed;       /* of this process */
};

/* What a process of a load does, until load->end or `ended`. */
typedef void (*role)(struct load *load);

struct load_roles {
	const char *name;
	bool per_cpu;          /* one process of roles[0] on each CPU */
	role roles[10];        /* ends with NULL */
	const char *names[10]; /* of the processes; NULL: that of the program */
};

/* Set by a signal: all roles end. */
extern volatile sig_atomic_t ended;

/* The load of that name, or NULL. */
const struct load_roles *find_load(const char *name);

/* Seconds on CLOCK_MONOTONIC. */
double now(void);

/* Bytes of memory available without swapping. */
unsigned long available(void);

/* Anonymous memory; ends the process if there is none. */
char *map(size_t size);

/* Print what failed and errno, exit status 1. */
__attribute__((noreturn)) void die(const char *what);

#endif
