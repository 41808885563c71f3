/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * printed_text.h - the texts that pagetape's BPF programs print: events
 * bpf_trace:bpf_trace_printk in the recorder's ring. snapshot/printed.bpf.c writes them, decode/
 * reads them. TOKEN is a number of the recorder, so that its filter passes no text of another one.
 * All numbers are hexadecimal, and a text ends with a dot.
 *
 *   pagetape TOKEN free PFN ORDER.      a free that passed the per-CPU lists (event set zone)
 *   pagetape TOKEN stamp WORD....        a row of `stamp`: STAMP_WORDS words, as below
 *
 *   pagetape TOKEN heads WORD....        rows of `list_head`: HEADS_WORDS words, each with the pfns
 * of two orders, the lower one in its low half; all ones: none
 *
 *   0  kind | zone << 8 | node << 16 | bits << 32   the numbers of the kind and the zone as on a
 * tape 1  count << 32 | high                    int in struct per_cpu_pages: 32 bits each 2
 * high_min << 32 | high_max 3  batch << 32 | free_count or free_factor << 16 | alloc_factor << 8 |
 * flags 4  vm_stat[NR_FREE_PAGES] << 8 | vm_stat_diff[NR_FREE_PAGES] of this CPU, both signed 5
 * watermark_boost << 32 | min 6  low << 32 | high
 */
#pragma once

enum { STAMP_WORDS = 7, HEADS_WORDS = 6 };

/* The kind of a stamp, by the number that it has on a tape (schemas/stamp.toml). */
enum stamped { STAMPED_REFILL, STAMPED_DRAIN, STAMPED_REMOTE_DRAIN, NR_STAMPED };

/* Bits of a stamp's word 0, after the shift: what the kernel has, and the flags of the zone. */
enum stamp_bits {
	STAMP_PCP = 1 << 0,          /* words 1 to 3 are valid: the PCP is the one of this CPU */
	STAMP_HAS_HIGH_MIN = 1 << 1, /* high_min, high_max, alloc_factor, flags, free_count */
	STAMP_HAS_FREE_FACTOR = 1 << 2,
	STAMP_HAS_BELOW_HIGH = 1 << 3,
	STAMP_BOOSTED_WATERMARK = 1 << 8,
	STAMP_RECLAIM_ACTIVE = 1 << 9,
	STAMP_BELOW_HIGH = 1 << 10,
};
