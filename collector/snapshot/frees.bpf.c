// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * frees.bpf.c - reports the frees that pass the per-CPU lists, in the text of frees.h: of an order
 * without a list, or of a page whose list is locked.
 *
 * A filter of ftrace runs after the record of the event was written, and takes it back. It sees no
 * lock either.
 */
#include "snapshot_pcp.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* In a section of its own, apart from the text of bpf_printk(). */
const volatile struct free_constants constants SEC(".rodata.frees") = {0};

/* Arguments: page, order. */
SEC("raw_tp/mm_page_free")
int report_free(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 page = ctx->args[0];
	__u32 order = ctx->args[1];

	if (order < 64 && constants.listed >> order & 1 &&
	    !pcp_is_locked(page, constants.vmemmap, constants.nr_zones))
		return 0;
	bpf_printk("pagetape free %lx %u",
		   (page - constants.vmemmap) / bpf_core_type_size(struct page), order);
	return 0;
}
