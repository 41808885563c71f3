/* SPDX-License-Identifier: Apache-2.0 */
/*
 * printed.h - programs that print what no event of the kernel shows, by BPF.
 *
 *   frees    of the event set zone: frees that pass the per-CPU lists
 *   stamps   state of the PCP and its zone at the first event of each refill and drain
 *
 * Each becomes an event bpf_trace:bpf_trace_printk (input/printed_text.h), right before the event
 * of the page if the programs are attached before that event is enabled.
 *
 * Loading makes the kernel switch that event on in the top instance of ftrace, soon after: the
 * caller switches it off again there.
 */
#pragma once

#include "snapshot.h"

struct printed;

struct printed_wanted {
	bool frees, stamps;
	uint64_t listed; /* for frees; bit n: order n has a per-CPU list */
	uint32_t token;  /* of the recorder, in every text */
};

/*
 * Print until printed_free(): frees of orders that are not `listed`, and of pages whose list is
 * locked; stamps. `s` lives longer. -EPERM, -ENOTSUP (the kernel refuses), -ENOMEM.
 */
int printed_new(struct printed **out, const struct snapshot *s, const struct printed_wanted *wanted,
		struct error *err);
void printed_free(struct printed *p);
