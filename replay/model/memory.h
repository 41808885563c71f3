/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - large zeroed arrays, and arrays that grow.
 */
#pragma once

#include "error.h"

#include <stddef.h>

/*
 * Zeroed memory, in huge pages where possible. An array of at most 1 GiB is populated at once, so
 * no event waits for a page fault. A larger array is populated on first touch, because zones may
 * span far more pages than the machine has. NULL if address space is short.
 */
void *memory_new(size_t bytes);
void memory_free(void *memory, size_t bytes);

/*
 * `array`: the address of the pointer to the first of `room` elements. Make room for `nr` of them,
 * and then for twice as many as before at least. `what` they are, for the message. -ENOMEM.
 */
int grow(void *array, size_t *room, size_t nr, size_t bytes, const char *what, struct error *err);

/*
 * The heap of this process keeps freed blocks of up to 32 MiB. A run frees a batch of rows and
 * allocates the next one: the kernel would clear their pages each time.
 */
void memory_keep_freed(void);

/* Give what is freed by now back to the kernel: further runs need other blocks. */
void memory_give_back(void);
