/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - large zeroed arrays.
 */
#pragma once

#include <stddef.h>

/*
 * Zeroed memory, in huge pages where possible. Up to 1 GiB is populated at once, so that no
 * event waits for a page fault. A larger array is populated as it is touched, because a
 * machine's zones may span far more pages than it has. NULL without address space.
 */
void *memory_new(size_t bytes);
void memory_free(void *memory, size_t bytes);
