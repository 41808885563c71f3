// SPDX-License-Identifier: Apache-2.0
#include "kpageflags.h"
#include "input/regular.h"
#include "tables.h"

#include <errno.h>
#include <linux/kernel-page-flags.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLAG(bit) (1ull << (bit))

/* Not in the kernel's user header: a page never given to the allocator. */
#define KPF_RESERVED 32

enum {
	CHUNK = 1 << 15, /* flags per read */
	FIRST_ROWS = 4096,
	MAX_ORDER = 20, /* beyond any kernel's */
	MAX_OVERLAP = 16,
};

#define MAX_PFN (1ull << 52) /* beyond any machine's */

struct flags_file {
	const char *path;
	int fd;
	off_t size; /* 0: of /proc */
};

/* One reading of the file. */
struct walk {
	int pageblock_order, max_order;
	const struct zone_span *zone;
	struct batch *blocks, *pageblocks;

	uint64_t read;  /* bytes so far, of all zones */
	uint64_t run;   /* first pfn of the run of free pages that ends here, */
	bool in_run;    /* if there is one */
	bool head_lru;  /* the current compound page is on an LRU list */
	uint64_t block; /* first pfn of the pageblock being counted */
	unsigned nr_present, nr_blank, nr_movable, nr_unmovable, nr_lru;
};

/* Double the room for rows. */
static int grow(struct batch **batch, struct error *err)
{
	const struct table *table = (*batch)->table;
	struct batch *bigger;
	int ret = batch_new(&bigger, table, 2 * (*batch)->capacity, err);

	if (ret)
		return ret;
	for (int c = 0; c < table->nr_columns; c++) {
		const struct column *column = &table->columns[c];

		memcpy(bigger->slots[column->slot], (*batch)->slots[column->slot],
		       (*batch)->nr * column->width);
		if (column->nullable)
			memcpy(bigger->slots[column->slot + 1], (*batch)->slots[column->slot + 1],
			       ((*batch)->nr + 7) / 8);
	}
	bigger->nr = (*batch)->nr;
	batch_free(*batch);
	*batch = bigger;
	return 0;
}

static int add_block(struct walk *w, uint64_t pfn, int order, struct error *err)
{
	int ret = w->blocks->nr == w->blocks->capacity ? grow(&w->blocks, err) : 0;
	struct block_guess_columns *to = (struct block_guess_columns *)w->blocks->slots;
	size_t i = w->blocks->nr;

	if (ret)
		return ret;
	to->node[i] = w->zone->node;
	to->zone[i] = w->zone->zone;
	to->page_order[i] = (uint8_t)order;
	to->pfn[i] = pfn;
	w->blocks->nr++;
	return 0;
}

/* End the run of free pages before `end`: cut it into the largest aligned blocks. */
static int end_run(struct walk *w, uint64_t end, struct error *err)
{
	int ret;

	if (!w->in_run)
		return 0;
	w->in_run = false;
	for (uint64_t pfn = w->run; pfn < end;) {
		int order = w->max_order;

		while (pfn & (FLAG(order) - 1) || pfn + FLAG(order) > end)
			order--;
		ret = add_block(w, pfn, order, err);
		if (ret)
			return ret;
		pfn += FLAG(order);
	}
	return 0;
}

static int end_pageblock(struct walk *w, struct error *err)
{
	struct pageblock_columns *to;
	size_t i;
	int ret;

	if (w->nr_present > w->nr_blank) {
		ret = w->pageblocks->nr == w->pageblocks->capacity ? grow(&w->pageblocks, err) : 0;
		if (ret)
			return ret;
		to = (struct pageblock_columns *)w->pageblocks->slots;
		i = w->pageblocks->nr++;
		to->node[i] = w->zone->node;
		to->zone[i] = w->zone->zone;
		to->pfn[i] = w->block;
		to->migratetype[i] = w->nr_unmovable > w->nr_movable ? MIGRATETYPE_UNMOVABLE
								     : MIGRATETYPE_MOVABLE;
		to->guessed[i] = 1;
		SET_VALUE(to, nr_movable, i,
			  (uint16_t)(w->nr_lru < UINT16_MAX ? w->nr_lru : UINT16_MAX));
	}
	w->nr_present = w->nr_blank = w->nr_movable = w->nr_unmovable = w->nr_lru = 0;
	return 0;
}

/*
 * One used page. A claim counts a page as movable by PageLRU(), which for a tail page
 * asks its head (prep_move_freepages_block, 6.12); kernels before 6.11
 * or so show the LRU bit on the head only. A new anonymous page waits in its CPU's batch for its
 * LRU list, milliseconds long (lru_add, mm/swap.c): it counts as one on the list. The flags of a
 * slab page are of no use: its fields for the mapping hold the slab's own (KPF_ANON at random).
 */
static void count_used(struct walk *w, uint64_t flags)
{
	bool lru;

	if (flags & FLAG(KPF_SLAB))
		flags &= ~(FLAG(KPF_LRU) | FLAG(KPF_ANON) | FLAG(KPF_MMAP));
	lru = flags & (FLAG(KPF_LRU) | FLAG(KPF_ANON));

	if (flags & FLAG(KPF_COMPOUND_TAIL))
		lru = lru || w->head_lru;
	w->head_lru = lru;
	w->nr_lru += lru;
	if (lru || flags & (FLAG(KPF_ANON) | FLAG(KPF_MMAP) | FLAG(KPF_HUGE)))
		w->nr_movable++;
	else
		w->nr_unmovable++;
}

static int see_page(struct walk *w, uint64_t pfn, uint64_t flags, struct error *err)
{
	uint64_t block = pfn >> w->pageblock_order << w->pageblock_order;
	int ret = 0;

	if (block != w->block) {
		ret = end_pageblock(w, err);
		w->block = block;
	}
	if (flags & FLAG(KPF_BUDDY)) {
		if (!w->in_run)
			w->run = pfn;
		w->in_run = true;
		w->nr_present++;
		return ret;
	}
	ret = ret ?: end_run(w, pfn, err);
	if (!(flags & FLAG(KPF_NOPAGE)))
		w->nr_present++;
	w->nr_blank += !flags;
	if (!(flags & (FLAG(KPF_NOPAGE) | FLAG(KPF_RESERVED) | FLAG(KPF_OFFLINE))))
		count_used(w, flags);
	return ret;
}

/*
 * Go from *pfn to the next pageblock of which the file has data. Holes read as pages without
 * flags: such pageblocks have no row, and a file may consist of them. Short holes are just read.
 */
static int skip_hole(struct walk *w, const struct flags_file *file, uint64_t *pfn,
		     struct error *err)
{
	uint64_t block = FLAG(w->pageblock_order), data_pfn, first, last;
	off_t data;
	int ret;

	if (!file->size) /* a file of /proc */
		return 0;
	data = lseek(file->fd, (off_t)(*pfn * sizeof(uint64_t)), SEEK_DATA);
	if (data < 0 && errno != ENXIO)
		return 0;
	data_pfn = (uint64_t)(data < 0 ? file->size : data) / sizeof(uint64_t);
	first = (*pfn + block - 1) / block * block;
	last = data_pfn / block * block;
	if (data_pfn < *pfn + CHUNK || first >= last)
		return 0;
	ret = end_run(w, *pfn, err);
	for (; *pfn < first && !ret; ++*pfn)
		ret = see_page(w, *pfn, 0, err);
	*pfn = last;
	return ret;
}

/* All pages of w->zone that the file has. */
static int walk_zone(struct walk *w, const struct flags_file *file, uint64_t *flags,
		     struct error *err)
{
	uint64_t pfn = w->zone->start_pfn, end = pfn + w->zone->spanned;
	int ret = 0;

	w->in_run = w->head_lru = false;
	w->block = UINT64_MAX;
	while (!(ret = skip_hole(w, file, &pfn, err)) && pfn < end) {
		size_t want = end - pfn < CHUNK ? end - pfn : CHUNK;
		ssize_t got = pread(file->fd, flags, want * sizeof(*flags),
				    (off_t)(pfn * sizeof(*flags)));

		if (got < 0)
			return fail(err, errno, "%s: %s", file->path, strerror(errno));
		if (got < (ssize_t)sizeof(*flags))
			break;
		w->read += (uint64_t)got;
		if (file->size && w->read / MAX_OVERLAP > (uint64_t)file->size)
			return fail(err, EINVAL, "%s: more than %d zones overlap", file->path,
				    MAX_OVERLAP);
		for (size_t i = 0; i < (size_t)got / sizeof(*flags) && !ret; i++)
			ret = see_page(w, pfn++, flags[i], err);
		if (ret)
			return ret;
	}
	ret = ret ?: end_run(w, pfn, err);
	return ret ?: end_pageblock(w, err);
}

int free_blocks(const char *path, const struct page_layout *layout, struct batch **blocks,
		struct batch **pageblocks, struct error *err)
{
	int pageblock_order = layout->pageblock_order, max_order = layout->max_order;
	struct walk w = {.pageblock_order = pageblock_order, .max_order = max_order};
	struct flags_file file = {.path = path};
	struct stat st = {0};
	uint64_t *flags = NULL;
	int ret;

	*blocks = *pageblocks = NULL;
	if (pageblock_order < 0 || pageblock_order > MAX_ORDER)
		return fail(err, EINVAL, "pageblock order %d is not in 0..%d", pageblock_order,
			    MAX_ORDER);
	if (max_order < 0 || max_order > MAX_ORDER)
		return fail(err, EINVAL, "max order %d is not in 0..%d", max_order, MAX_ORDER);
	for (int z = 0; z < layout->nr_zones; z++)
		if (layout->zones[z].start_pfn > MAX_PFN || layout->zones[z].spanned > MAX_PFN)
			return fail(err, EINVAL, "a zone of %llu pages from pfn %llu on",
				    (unsigned long long)layout->zones[z].spanned,
				    (unsigned long long)layout->zones[z].start_pfn);
	file.fd = regular_open(path, 0, &st, err);
	if (file.fd < 0)
		return file.fd;
	file.size = st.st_size;

	ret = batch_new(&w.blocks, &block_guess_table, FIRST_ROWS, err);
	ret = ret ?: batch_new(&w.pageblocks, &pageblock_table, FIRST_ROWS, err);
	if (!ret) {
		flags = malloc(CHUNK * sizeof(*flags));
		if (!flags)
			ret = fail(err, ENOMEM, "no memory for page flags");
	}
	for (int z = 0; z < layout->nr_zones && !ret; z++) {
		w.zone = &layout->zones[z];
		ret = walk_zone(&w, &file, flags, err);
	}
	free(flags);
	close(file.fd);
	if (ret) {
		batch_free(w.blocks);
		batch_free(w.pageblocks);
		return ret;
	}
	*blocks = w.blocks;
	*pageblocks = w.pageblocks;
	return 0;
}
