/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.h - large zeroed arrays, arrays that live as long as a run, and arrays that grow.
 */
#pragma once

#include "error.h"

#include <stddef.h>

/*
 * The arrays of a run, which are freed together: those of a model and of all that works on it. An
 * array without memory is NULL, and arrays_error() then is -ENOMEM; a caller that fills its arrays
 * asks before that, others once.
 */
struct arrays {
	struct array *last;
	size_t refused; /* bytes of the first array without memory, or 0 */
};

/* `nr` zeroed elements. */
void *arrays_new(struct arrays *arrays, size_t nr, size_t bytes);
/* The same, of memory_new(): for what every event looks at. */
void *arrays_map(struct arrays *arrays, size_t nr, size_t bytes);
/* Free one of them early. */
void arrays_drop(struct arrays *arrays, void *array);
int arrays_error(const struct arrays *arrays, struct error *err);
void arrays_free(struct arrays *arrays);

/*
 * `array`: the address of the pointer to the first of `room` elements, of arrays_new() or NULL.
 * Make room for `nr` of them, and then for twice as many as before at least. -ENOMEM.
 */
int grow(struct arrays *arrays, void *array, size_t *room, size_t nr, size_t bytes,
	 struct error *err);

/*
 * Zeroed memory, in huge pages where possible. An array of at most 1 GiB is populated at once, so
 * no event waits for a page fault. A larger array is populated on first touch, because zones may
 * span far more pages than the machine has. NULL if address space is short.
 */
void *memory_new(size_t bytes);
void memory_free(void *memory, size_t bytes);

/* Give what is freed by now back to the kernel: further runs need other blocks. */
void memory_give_back(void);
