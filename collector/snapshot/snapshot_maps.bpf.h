/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* snapshot_maps.bpf.h - the memory that the snapshot programs share with snapshot.c. */
#pragma once

#include "snapshot_pcp.bpf.h"

/*
 * A function that the verifier checks once, with any arguments, and not anew on every way to it.
 * Its pointers may be NULL, and after it the caller's variables that it may change are unknown.
 * Without such functions in the loops, Linux 7.3 stores 600 MB of the verifier's states.
 */
#define CHECKED_ONCE __attribute__((noinline))

struct control control;

MAPPED_ARRAY(zones, 1, struct zone_image);
MAPPED_ARRAY(pcps, 1, struct pcp_image);
MAPPED_ARRAY(sections, 1, struct section_image);
MAPPED_ARRAY(nodes, 1, __u64); /* addresses of the entries of all walked lists */

/* Of a precopied snapshot. */
MAPPED_ARRAY(page_bits, 1, struct page_bits);
MAPPED_ARRAY(section_bits, 1, __u64); /* by memory section: its first element of page_bits */
MAPPED_ARRAY(touches, 1, struct touch);
MAPPED_ARRAY(claims, 1, struct claim);
MAPPED_ARRAY(segments, 1, struct segment);

/* Only for the address of each CPU's per-cpu area. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} probe SEC(".maps");

static __u64 read_u64(__u64 address)
{
	__u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}
