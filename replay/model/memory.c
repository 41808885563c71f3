// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

void *memory_new(size_t bytes)
{
	const size_t most_at_once = 1ul << 30;
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
	if (bytes <= most_at_once)
		madvise(memory, bytes, MADV_POPULATE_WRITE);
#endif
	return memory;
}

void memory_free(void *memory, size_t bytes)
{
	if (memory)
		munmap(memory, bytes);
}

struct array {
	struct array *earlier;
	void *memory;
	size_t mapped; /* bytes, or 0: of the heap */
};

static void release(void *memory, size_t mapped)
{
	if (mapped)
		memory_free(memory, mapped);
	else
		free(memory);
}

static void *keep(struct arrays *arrays, void *memory, size_t bytes, size_t mapped)
{
	struct array *array = memory ? malloc(sizeof(*array)) : NULL;

	if (!array) {
		release(memory, mapped);
		arrays->refused = arrays->refused ? arrays->refused : bytes;
		return NULL;
	}
	*array = (struct array){arrays->last, memory, mapped};
	arrays->last = array;
	return memory;
}

void *arrays_new(struct arrays *arrays, size_t nr, size_t bytes)
{
	return keep(arrays, calloc(nr, bytes), nr * bytes, 0);
}

void *arrays_map(struct arrays *arrays, size_t nr, size_t bytes)
{
	return keep(arrays, memory_new(nr * bytes), nr * bytes, nr * bytes);
}

/* The link to an array. */
static struct array **link_of(struct arrays *arrays, const void *memory)
{
	struct array **link = &arrays->last;

	while (*link && (*link)->memory != memory)
		link = &(*link)->earlier;
	return link;
}

void arrays_drop(struct arrays *arrays, void *memory)
{
	struct array **link = link_of(arrays, memory), *array = *link;

	if (!memory || !array)
		return;
	*link = array->earlier;
	release(array->memory, array->mapped);
	free(array);
}

int arrays_error(const struct arrays *arrays, struct error *err)
{
	return arrays->refused
		       ? fail(err, ENOMEM, "no memory for an array of %zu bytes", arrays->refused)
		       : 0;
}

void arrays_free(struct arrays *arrays)
{
	while (arrays->last) {
		struct array *last = arrays->last;

		arrays->last = last->earlier;
		release(last->memory, last->mapped);
		free(last);
	}
}

/* A larger array of the heap in the place of another. */
static void *again(struct arrays *arrays, void *memory, size_t bytes)
{
	struct array *array = *link_of(arrays, memory);
	void *larger = realloc(memory, bytes);

	if (larger)
		array->memory = larger;
	else
		arrays->refused = bytes;
	return larger;
}

int grow(struct arrays *arrays, void *array, size_t *room, size_t nr, size_t bytes,
	 struct error *err)
{
	size_t more = nr > 2 * *room ? nr : 2 * *room;
	void *old, *rows;

	if (nr <= *room)
		return 0;
	memcpy(&old, array, sizeof(old));
	rows = old ? again(arrays, old, more * bytes) : arrays_new(arrays, more, bytes);
	if (!rows)
		return arrays_error(arrays, err);
	memcpy(array, &rows, sizeof(rows));
	*room = more;
	return 0;
}

void memory_give_back(void)
{
	malloc_trim(0);
}
