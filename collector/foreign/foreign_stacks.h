/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign_stacks.h - kernel stacks of a foreign file, as records of ftrace:kernel_stack.
 *
 * A text has names instead of addresses. Each name gets an address of our own, and foreign_symbols
 * gives the list of both in the form of /proc/kallsyms, so that a tape gets its functions as from
 * a trace.dat.
 */
#pragma once

#include "error.h"
#include "text_line.h"

#include <event-parse.h>

enum { FOREIGN_FRAMES = 128 }; /* most of a stack */

struct foreign;

/* One frame, as a text has it. */
struct text_frame {
	struct words name, module; /* empty: unknown, and none */
	uint64_t offset;           /* 0: unknown */
	uint64_t address;          /* 0: unknown */
};

/*
 * "\tffffffff8128b2e4 __alloc_pages+0x144 ([kernel.kallsyms])" of perf script, " => __alloc_pages",
 * " => func+0x12/0x30 [module]" and "=> func (ffffffff8128b2e4)" of ftrace and trace-cmd. False:
 * another line, or the frame of a program.
 */
bool text_frame_read(struct text_frame *frame, const char *at, const char *end);

/* The names of functions, of which each has an address. */
struct stack_names;

void stack_names_free(struct stack_names *names);

/* The address of a frame; first pass: its name is added if it is new. 0: no memory. */
uint64_t stack_names_address(struct stack_names **names, const struct text_frame *frame);

/* All names as lines of /proc/kallsyms, to be freed. NULL: no memory. */
char *stack_names_text(const struct stack_names *names);

/* The format of the records, if the file has stacks. -ENOMEM. */
int foreign_stack_format(struct foreign *f, struct error *err);

/* The stack of an event: addresses, innermost first. */
struct foreign_stack {
	int32_t pid;
	int nr;
	uint64_t frames[FOREIGN_FRAMES];
};

/* Second pass: the stack of the event before it; as foreign_add. */
int foreign_add_stack(struct foreign *f, int cpu, uint64_t ts, const struct foreign_stack *stack,
		      struct error *err);
