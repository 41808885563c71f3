/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - large zeroed arrays.
 */
#pragma once

#include <stddef.h>

/*
 * Zeroed memory in huge pages where there are any. Up to 1 GiB is there at once, so
 * that no event waits for a page fault; more comes as it is touched, for a machine's
 * zones may span far more pages than it has. NULL if there is no address space.
 */
void *memory_new(size_t bytes);
void memory_free(void *memory, size_t bytes);
