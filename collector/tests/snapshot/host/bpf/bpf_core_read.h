/* SPDX-License-Identifier: Apache-2.0 */
/* bpf_core_read.h - the kernel that precopy_kernel.c simulates is the one of snapshot_kernel.h. */
#pragma once

#include <stddef.h>

#define bpf_core_type_size(type)                sizeof(type)
#define bpf_core_field_exists(type, field)      1
#define bpf_core_field_offset(type, field)      offsetof(type, field)
#define bpf_core_field_size(type, field)        sizeof(((type *)0)->field)
#define bpf_core_enum_value_exists(type, value) 1
#define bpf_core_enum_value(type, value)        value
#define bpf_core_type_id_kernel(type)           0
#define bpf_core_read(to, size, from)           bpf_probe_read_kernel(to, size, from)
#define BPF_CORE_READ(from, field)              ((from)->field)
