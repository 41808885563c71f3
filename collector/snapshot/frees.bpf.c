// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * frees.bpf.c - reports the frees that pass the per-CPU lists, in the text of frees.h.
 *
 * A filter of ftrace runs after the record of the event was written, and takes it back. This
 * program looks at the order first, so that a free onto a list costs next to nothing.
 */
#include "snapshot_image.h"
#include "snapshot_kernel.h"

#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* In a section of its own, apart from the text of bpf_printk(). */
const volatile struct free_constants constants SEC(".rodata.frees") = {0};

/* Arguments: page, order. */
SEC("tp_btf/mm_page_free")
int report_free(__u64 *ctx)
{
	__u32 order = ctx[1];
	__u64 page = 0;

	if (order < 64 && constants.listed >> order & 1)
		return 0;
	/* Through memory, because the verifier forbids arithmetic on the address itself. */
	bpf_probe_read_kernel(&page, sizeof(page), ctx);
	bpf_printk("pagetape free %lx %u",
		   (page - constants.vmemmap) / bpf_core_type_size(struct page), order);
	return 0;
}
