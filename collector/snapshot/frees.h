/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frees.h - reports the frees that pass the per-CPU lists, by BPF: the event set zone.
 *
 * Each such mm_page_free becomes an event bpf_trace:bpf_trace_printk with the text
 * "pagetape free PFN ORDER", PFN in hexadecimal. The decoder makes a row of it.
 *
 * Loading makes the kernel switch that event on in the top instance of ftrace, soon after: the
 * caller switches it off again there.
 */
#pragma once

#include "snapshot.h"

struct frees;

/*
 * Report the frees of orders whose bit is not set in `listed`, and of pages whose list is locked,
 * until frees_free(). `s` lives longer. -EPERM, -ENOTSUP (the kernel refuses), -ENOMEM.
 */
int frees_new(struct frees **out, const struct snapshot *s, uint64_t listed, struct error *err);
void frees_free(struct frees *f);
