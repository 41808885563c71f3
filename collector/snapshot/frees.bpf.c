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
SEC("tp_btf/mm_page_free")
int report_free(__u64 *ctx)
{
	__u32 order = ctx[1];
	__u64 page = 0;

	/* Through memory, because the verifier forbids arithmetic on the address itself. */
	bpf_probe_read_kernel(&page, sizeof(page), ctx);
	page = (page - constants.vmemmap) / bpf_core_type_size(struct page);
	if (order < 64 && constants.listed >> order & 1 && !pcp_is_locked(page, constants.nr_zones))
		return 0;
	bpf_printk("pagetape free %lx %u", page, order);
	return 0;
}
