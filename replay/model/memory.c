// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { KEPT_BLOCK = 32 << 20, KEPT_MOST = 64 << 20 };

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

int grow(void *array, size_t *room, size_t nr, size_t bytes, const char *what, struct error *err)
{
	size_t more = nr > 2 * *room ? nr : 2 * *room;
	void *old, *rows;

	if (nr <= *room)
		return 0;
	memcpy(&old, array, sizeof(old));
	rows = realloc(old, more * bytes);
	if (!rows)
		return fail(err, ENOMEM, "no memory for %zu %s", more, what);
	memcpy(array, &rows, sizeof(rows));
	*room = more;
	return 0;
}

void memory_keep_freed(void)
{
	mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK);
	mallopt(M_TRIM_THRESHOLD, KEPT_MOST);
}

void memory_give_back(void)
{
	malloc_trim(0);
}
