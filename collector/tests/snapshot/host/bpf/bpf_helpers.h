/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf_helpers.h - what BPF programs call, for the same programs compiled for this machine: see
 * precopy_kernel.c.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SEC(name)
#define __ksym
#define __weak            __attribute__((weak))
#define __uint(name, val) int (*name)[val]
#define __type(name, val) typeof(val) *name

/* The memory of a map that snapshot_maps.bpf.h defines; NULL beyond its end. */
void *host_element(const void *map, uint32_t i);

#define bpf_map_lookup_elem(map, key)             ((typeof((map)->value))host_element(map, *(key)))
#define bpf_map_lookup_percpu_elem(map, key, cpu) ((typeof((map)->value))host_element(map, *(key)))

long bpf_loop(uint32_t nr, void *callback, void *context, uint64_t flags);
uint64_t bpf_ktime_get_ns(void);
uint32_t bpf_get_smp_processor_id(void);
uint64_t bpf_get_current_pid_tgid(void);
uint64_t bpf_get_current_task(void);
long bpf_probe_read_kernel(void *to, uint32_t size, const void *from);
long bpf_probe_read_kernel_str(void *to, uint32_t size, const void *from);
