// SPDX-License-Identifier: Apache-2.0
#include "snapshot.h"

#include "model/buddy.h"
#include "model/min_max.h"
#include "model/vmstat_diff.h"
#include "model/pcp.h"
#include "model/policy_stack.h"

#include <errno.h>
#include <stdlib.h>

const struct table *const end_tables[NR_END] = {
	[END_ZONE] = &zone_table,           [END_PCP] = &pcp_table,
	[END_FREE_AREA] = &free_area_table, [END_BLOCK_COUNT] = &block_count_table,
	[END_PAGEBLOCK] = &pageblock_table, [END_FREE_BLOCK] = &free_block_table,
	[END_PCP_PAGE] = &pcp_page_table,
};

int snapshot_zones(struct zone_spec *specs, int *nr, int room, const struct zone_columns *columns,
		   size_t rows, struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		if (columns->snapshot[i] || !columns->managed[i] || !columns->spanned[i])
			continue;
		if (*nr == room)
			return fail(err, E2BIG, "more than %d populated zones", room);
		specs[(*nr)++] = (struct zone_spec){
			.node = columns->node[i],
			.type = columns->zone[i],
			.start_pfn = columns->start_pfn[i],
			.spanned = columns->spanned[i],
			.present = columns->present[i],
			.managed = columns->managed[i],
			.wmark = {(int64_t)columns->wmark_min[i], (int64_t)columns->wmark_low[i],
				  (int64_t)columns->wmark_high[i]},
			.wmark_promo = VALUE_OR(columns, wmark_promo, i, 0),
			.lowmem_reserve = {(int64_t)columns->lowmem_reserve_dma[i],
					   (int64_t)columns->lowmem_reserve_dma32[i],
					   (int64_t)columns->lowmem_reserve_normal[i],
					   (int64_t)columns->lowmem_reserve_highmem[i],
					   (int64_t)columns->lowmem_reserve_movable[i],
					   (int64_t)columns->lowmem_reserve_device[i]},
			.boost = (int64_t)VALUE_OR(columns, boost, i, 0),
			.nr_reserved_highatomic = VALUE_OR(columns, nr_reserved_highatomic, i, 0),
			.stat_threshold = VALUE_OR(columns, stat_threshold, i, 0),
			.below_high = VALUE_OR(columns, below_high, i, false),
			.reclaim_active = VALUE_OR(columns, reclaim_active, i, false),
			.boosted_watermark = VALUE_OR(columns, boosted_watermark, i, false),
		};
	}
	return 0;
}

static struct zone *find_zone(struct model *m, int node, int type)
{
	for (int i = 0; i < m->nr_zones; i++)
		if (tape_node(m, m->zones[i].node) == node && m->zones[i].type == type)
			return &m->zones[i];
	return NULL;
}

/* The row's migratetype for one of the snapshot. */
static int known_type(const struct model *m, int migratetype)
{
	switch (migratetype) {
	case MIGRATETYPE_HIGHATOMIC:
		return m->kernel->highatomic == HIGHATOMIC_NONE ? MIGRATETYPE_MOVABLE : migratetype;
	case MIGRATETYPE_RESERVE:
		return m->kernel->reserve_blocks ? migratetype : MIGRATETYPE_MOVABLE;
	case MIGRATETYPE_ISOLATE: /* a temporary state, which no event of a free run would end */
		return MIGRATETYPE_MOVABLE;
	default:
		return migratetype;
	}
}

/* The parts of a zone have PCPs of their own size, not of the recorded size. */
static void load_pcp_of_parts(struct model *m, const struct pcp_columns *columns, size_t i)
{
	for (int z = 0; z < m->nr_zones; z++) {
		struct zone *zone = &m->zones[z];

		if (tape_node(m, zone->node) != columns->node[i] || zone->type != columns->zone[i])
			continue;
		zone->pcp_unseen += columns->count[i];
		zone_pcp(m, zone, columns->cpu[i])->flags =
			VALUE_OR(columns, flags, i, PCP_FREE_HIGH_BATCH);
	}
}

static void load_tuning(struct zone *zone, struct pcp *pcp, const struct pcp_columns *columns,
			size_t i)
{
	zone->pcp_unseen += columns->count[i];
	pcp->batch = (int)columns->batch[i];
	pcp->flags = VALUE_OR(columns, flags, i, PCP_FREE_HIGH_BATCH);
	if (is_valid(columns->free_factor_valid, i))
		pcp->free_factor = columns->free_factor[i] & 15;
	if (is_valid(columns->free_count_valid, i))
		pcp->free_count = (int)(columns->free_count[i] & 0xffffff);
	if (is_valid(columns->alloc_factor_valid, i))
		pcp->alloc_factor = columns->alloc_factor[i] & 7;
	if (is_valid(columns->expire_valid, i))
		pcp->expire = columns->expire[i];
	if (is_valid(columns->vm_stat_diff_valid, i) && zone->stat_threshold)
		vmstat_diff_load(zone, pcp, columns->vm_stat_diff[i]);
}

/*
 * An auto-tuned high may start at any recorded value; the other kinds take only a value of their
 * own kind.
 */
static int load_limits(const struct model *m, const struct kernel *recorded, struct pcp *pcp,
		       const struct pcp_columns *columns, size_t i, struct error *err)
{
	if (m->kernel->pcp_tuning != PCP_AUTO && m->kernel->pcp_tuning != recorded->pcp_tuning)
		return 0;
	pcp->high = (int)columns->high[i];
	if (m->kernel->pcp_tuning != PCP_AUTO || !is_valid(columns->high_min_valid, i) ||
	    !is_valid(columns->high_max_valid, i))
		return 0;
	if (columns->high_min[i] > INT32_MAX / 2 || columns->high_max[i] > INT32_MAX / 2)
		return fail(err, EINVAL, "pcp: CPU %d has high_min %u, high_max %u",
			    columns->cpu[i], columns->high_min[i], columns->high_max[i]);
	pcp->high_min = (int)columns->high_min[i];
	pcp->high_max = (int)columns->high_max[i];
	return 0;
}

int snapshot_load_pcp(struct model *m, const struct kernel *recorded,
		      const struct pcp_columns *columns, size_t rows, struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		struct zone *zone = find_zone(m, columns->node[i], columns->zone[i]);
		int ret;

		if (columns->snapshot[i] || !zone)
			continue;
		if (columns->cpu[i] >= m->nr_cpus)
			return fail(err, EINVAL, "pcp: CPU %d of %d", columns->cpu[i], m->nr_cpus);
		if (!columns->batch[i] || columns->batch[i] > 1 << 20 ||
		    columns->high[i] > INT32_MAX / 2 || columns->count[i] > INT32_MAX / 2)
			return fail(err, EINVAL, "pcp: CPU %d has count %u, high %u, batch %u",
				    columns->cpu[i], columns->count[i], columns->high[i],
				    columns->batch[i]);
		if (m->node_parts > 1 || m->zone_parts > 1) {
			load_pcp_of_parts(m, columns, i);
			continue;
		}
		load_tuning(zone, zone_pcp(m, zone, columns->cpu[i]), columns, i);
		ret = load_limits(m, recorded, zone_pcp(m, zone, columns->cpu[i]), columns, i, err);
		if (ret)
			return ret;
	}
	return 0;
}

int snapshot_load_pageblock(struct model *m, const struct pageblock_columns *columns, size_t rows,
			    struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		frame_nr frame = pfn_frame(m, columns->pfn[i]);
		struct pageblock *block;

		if (columns->snapshot[i])
			continue;
		if (columns->migratetype[i] >= NR_MIGRATETYPE)
			return fail(err, EINVAL, "pageblock: pfn %llu has migratetype %d",
				    (unsigned long long)columns->pfn[i], columns->migratetype[i]);
		if (frame == NO_FRAME) {
			/* The first block of a zone may begin before the zone does. */
			frame = pfn_frame(m, columns->pfn[i] + (1ull << m->pageblock_order) - 1);
			if (frame == NO_FRAME)
				continue;
		}
		block = frame_block(m, frame);
		block->migratetype = (uint8_t)known_type(m, columns->migratetype[i]);
		block->known = m->blocks_known = true;
		block->lru_known = is_valid(columns->nr_movable_valid, i);
		if (block->lru_known)
			block->old_movable = block->old_lru =
				(uint16_t)min_int(columns->nr_movable[i], block->nr_old);
		else if (block->migratetype != MIGRATETYPE_MOVABLE)
			block->old_movable = 0;
	}
	return 0;
}

/* Take old pages of one pageblock off its counts; false if one of them is not old. */
static bool take_old(struct model *m, frame_nr first, uint32_t nr)
{
	struct pageblock *block = frame_block(m, first);

	/* A pageblock of old pages only, as most are that a large free block covers. */
	for (uint32_t i = 0; i < nr && block->nr_old != 1u << m->pageblock_order; i++)
		if (m->frames[first + i].state != FRAME_OLD)
			return false;
	block->nr_old = (uint16_t)(block->nr_old - nr);
	if (block->old_lru > block->nr_old)
		block->old_lru = block->nr_old;
	return true;
}

/* The frame of 2^order pages, if no other row of the snapshot covers them. */
static int claim_old(struct model *m, const char *table, uint64_t pfn, int order, uint32_t *out,
		     struct error *err)
{
	uint32_t part = 1u << (order < m->pageblock_order ? order : m->pageblock_order);
	frame_nr frame = pfn_frame(m, pfn);
	const struct zone *zone;

	if (order > m->max_order)
		return fail(err, EINVAL, "%s: pfn %llu has order %d", table,
			    (unsigned long long)pfn, order);
	if (frame == NO_FRAME)
		return fail(err, EINVAL, "%s: pfn %llu is in no zone", table,
			    (unsigned long long)pfn);
	zone = frame_zone(m, frame);
	if (frame & ((1u << order) - 1) || zone->end - frame < 1u << order)
		return fail(err, EINVAL, "%s: pfn %llu cannot begin a block of order %d", table,
			    (unsigned long long)pfn, order);
	for (uint32_t i = 0; i < 1u << order; i += part)
		if (!take_old(m, frame + i, part))
			return fail(err, EINVAL, "%s: pfn %llu of order %d overlaps another block",
				    table, (unsigned long long)pfn, order);
	block_set_used(m, frame, order);
	*out = frame;
	return 0;
}

/* Free a block of the snapshot; buddies that were freed while the snapshot was read merge. */
static void add_free(struct model *m, frame_nr frame, int order, int migratetype)
{
	frame_nr buddy = frame ^ (1u << order);
	struct zone *zone = frame_zone(m, frame);

	if (order < m->max_order && m->frames[buddy].state == FRAME_FREE &&
	    m->frames[buddy].order == order &&
	    (order < m->pageblock_order || may_merge(m, buddy, migratetype)))
		buddy_put(m, zone, frame, order, migratetype, NULL);
	else
		free_list_add(m, zone, frame, order, migratetype, true);
}

int snapshot_load_free_block(struct model *m, const struct free_block_columns *columns, size_t rows,
			     struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		frame_nr frame;
		int ret;

		if (columns->snapshot[i])
			continue;
		if (columns->migratetype[i] >= NR_MIGRATETYPE)
			return fail(err, EINVAL, "free_block: pfn %llu has migratetype %d",
				    (unsigned long long)columns->pfn[i], columns->migratetype[i]);
		ret = claim_old(m, "free_block", columns->pfn[i], columns->page_order[i], &frame,
				err);
		if (ret)
			return ret;
		add_free(m, frame, columns->page_order[i], known_type(m, columns->migratetype[i]));
	}
	return 0;
}

int snapshot_load_block_guess(struct model *m, const struct block_guess_columns *columns,
			      size_t rows, struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		frame_nr frame;
		int ret;

		if (columns->snapshot[i])
			continue;
		ret = claim_old(m, "block_guess", columns->pfn[i], columns->page_order[i], &frame,
				err);
		if (ret)
			return ret;
		frame_zone(m, frame)->guessed = true;
		add_free(m, frame, columns->page_order[i], MIGRATETYPE_MOVABLE);
	}
	return 0;
}

int snapshot_load_pcp_page(struct model *m, const struct pcp_page_columns *columns, size_t rows,
			   struct error *err)
{
	for (size_t i = 0; i < rows; i++) {
		int order = columns->page_order[i], type = columns->migratetype[i];
		uint64_t pages;
		struct zone *zone;
		frame_nr frame;
		int ret;

		if (columns->snapshot[i])
			continue;
		if (type >= NR_MIGRATETYPE || columns->cpu[i] >= m->nr_cpus)
			return fail(err, EINVAL, "pcp_page: pfn %llu has migratetype %d, CPU %d",
				    (unsigned long long)columns->pfn[i], type, columns->cpu[i]);
		if (m->record->zone_events)
			continue;
		ret = claim_old(m, "pcp_page", columns->pfn[i], order, &frame, err);
		if (ret)
			return ret;
		zone = frame_zone(m, frame);
		pages = 1ull << order;
		zone->pcp_unseen -= pages < zone->pcp_unseen ? pages : zone->pcp_unseen;
		if (m->pcp_lists[order][known_type(m, type)] != NO_PCP_LIST)
			pcp_push_tail(m, zone_pcp(m, zone, columns->cpu[i]), frame, order,
				      known_type(m, type), known_type(m, type));
		else
			add_free(m, frame, order, known_type(m, type));
	}
	return 0;
}

/* Cut a free chunk so that the pageblock of `page` is apart from its neighbours. */
static void split_free(struct model *m, struct zone *zone, frame_nr page)
{
	frame_nr head = block_head(m, page);
	struct frame *f = m->frames;

	while (f[head].state == FRAME_FREE && f[head].order > m->pageblock_order) {
		int order = f[head].order - 1, type = f[head].list;

		free_list_del(m, zone, head);
		free_list_add(m, zone, head, order, type, true);
		free_list_add(m, zone, head + (1u << order), order, type, true);
		head = block_head(m, page);
	}
}

/* setup_zone_migrate_reserve, 2.6.31 to 2.6.33: MOVABLE blocks for the last resort. */
static void set_reserve_blocks(struct model *m, struct zone *zone)
{
	struct policy *owner = m->policies->owner.reserve_blocks;
	int want = owner->ops->reserve_blocks(owner, m, zone);
	uint32_t pages = 1u << m->pageblock_order;

	for (frame_nr page = zone->start; page < zone->end; page += pages) {
		uint32_t start = page & ~(pages - 1);
		int type = frame_block(m, page)->migratetype, other;

		if (type != MIGRATETYPE_MOVABLE && type != MIGRATETYPE_RESERVE)
			continue;
		other = want > 0 ? MIGRATETYPE_RESERVE : MIGRATETYPE_MOVABLE;
		want -= want > 0;
		if (other == type)
			continue;
		/* The kernels of MIGRATE_RESERVE move a chunk of several blocks as one. */
		if (m->kernel->merge != MERGE_ANY)
			split_free(m, zone, page);
		set_block_type(m, page, 0, other);
		/* A block that ends after its zone keeps its lists (move_freepages_block). */
		if (start + pages <= zone->end)
			move_free_pages(m, zone, start < zone->start ? page : start, start + pages,
					other);
	}
}

void snapshot_complete(struct model *m)
{
	for (int i = 0; i < m->nr_zones; i++) {
		struct zone *zone = &m->zones[i];
		bool by_block = zone->guessed || m->kernel->drained_type == DRAINED_BLOCK;

		for (frame_nr frame = zone->base; frame < zone->end;) {
			int type = frame_block(m, frame)->migratetype;
			struct frame *f = &m->frames[frame];

			if (f->state == FRAME_FREE && by_block && f->list != type) {
				free_list_del(m, zone, frame);
				free_list_add(m, zone, frame, f->order, type, true);
			}
			/*
			 * The other blocks of the chunk must have its type, or the tape contradicts
			 * itself.
			 */
			if (f->state == FRAME_FREE && m->kernel->drained_type == DRAINED_BLOCK)
				set_block_type(m, frame, f->order, type);
			frame += 1u << f->order;
		}
		if (m->kernel->reserve_blocks)
			set_reserve_blocks(m, zone);
	}
	for (uint32_t b = 0; b < m->nr_frames >> m->pageblock_order; b++) {
		struct pageblock *block = &m->blocks[b];

		if (block->old_movable > block->nr_old)
			block->old_movable = block->nr_old;
	}
}

#define SET(column, value) SET_VALUE(columns, column, i, value)

static void write_zone(const struct zone *zone, struct output *output, uint64_t ts)
{
	struct zone_columns *columns;
	BEGIN_SNAPSHOT_ROW(output, 1, ts, zone)

	columns->start_pfn[i] = zone->base_pfn + (zone->start - zone->base);
	columns->spanned[i] = zone->end - zone->start;
	columns->present[i] = zone->present;
	columns->managed[i] = zone->managed;
	columns->free[i] = zone_listed_free(zone);
	columns->wmark_min[i] = (uint64_t)zone->wmark[WMARK_MIN];
	columns->wmark_low[i] = (uint64_t)zone->wmark[WMARK_LOW];
	columns->wmark_high[i] = (uint64_t)zone->wmark[WMARK_HIGH];
	if (zone->wmark_promo)
		SET(wmark_promo, zone->wmark_promo);
	columns->lowmem_reserve_dma[i] = (uint64_t)zone->lowmem_reserve[ZONE_DMA];
	columns->lowmem_reserve_dma32[i] = (uint64_t)zone->lowmem_reserve[ZONE_DMA32];
	columns->lowmem_reserve_normal[i] = (uint64_t)zone->lowmem_reserve[ZONE_NORMAL];
	columns->lowmem_reserve_highmem[i] = (uint64_t)zone->lowmem_reserve[ZONE_HIGHMEM];
	columns->lowmem_reserve_movable[i] = (uint64_t)zone->lowmem_reserve[ZONE_MOVABLE];
	columns->lowmem_reserve_device[i] = (uint64_t)zone->lowmem_reserve[ZONE_DEVICE];
	if (zone->stat_threshold)
		SET(stat_threshold, (uint32_t)zone->stat_threshold);
	SET(boost, (uint64_t)zone->boost);
	SET(nr_reserved_highatomic, zone->nr_reserved_highatomic);
	SET(nr_free_highatomic, zone->nr_free_highatomic);
	SET(nr_free_cma, zone->nr_free_cma);
	SET(below_high, zone->below_high);
	SET(reclaim_active, zone->reclaim_active);
	SET(boosted_watermark, zone->boosted_watermark);
}

static void write_pcp(const struct model *m, const struct pcp *pcp, struct output *output,
		      uint64_t ts)
{
	const struct zone *zone = &m->zones[pcp->zone];
	struct pcp_columns *columns;
	BEGIN_SNAPSHOT_ROW(output, 1, ts, zone)

	columns->cpu[i] = pcp->cpu;
	columns->count[i] = (uint32_t)pcp->count;
	columns->high[i] = (uint32_t)pcp->high;
	columns->batch[i] = (uint32_t)pcp->batch;
	SET(expire, pcp->expire);
	if (zone->stat_threshold)
		SET(vm_stat_diff, pcp->vmstat_diff);
	if (m->kernel->pcp_tuning == PCP_FREE_FACTOR)
		SET(free_factor, pcp->free_factor);
	if (m->kernel->pcp_tuning != PCP_AUTO)
		return;
	SET(high_min, (uint32_t)pcp->high_min);
	SET(high_max, (uint32_t)pcp->high_max);
	SET(alloc_factor, pcp->alloc_factor);
	SET(free_count, (uint32_t)pcp->free_count);
	SET(flags, pcp->flags);
}

static void write_pcp_pages(const struct model *m, const struct pcp *pcp, struct output *output,
			    uint64_t ts)
{
	const struct zone *zone = &m->zones[pcp->zone];

	if (!output)
		return;
	for (int list = 0; list < m->nr_pcp_lists; list++) {
		frame_nr head = pcp->heads + (uint32_t)list;
		int order, type;

		pcp_list_of(m, list, &order, &type);
		for (uint32_t f = m->frames[head].next; f != head; f = m->frames[f].next) {
			struct pcp_page_columns *columns;
			BEGIN_SNAPSHOT_ROW(output, 1, ts, zone)

			columns->cpu[i] = pcp->cpu;
			columns->migratetype[i] = (uint8_t)type;
			columns->page_order[i] = m->frames[f].order;
			columns->pfn[i] = frame_pfn(m, f);
		}
	}
}

static void write_free_list(const struct model *m, const struct zone *zone, int order, int type,
			    struct output *const outputs[NR_END], uint64_t ts)
{
	list_nr list = free_list(zone, order, type);

	if (zone->nr_free[order][type] || type <= MIGRATETYPE_HIGHATOMIC) {
		struct free_area_columns *columns;
		BEGIN_SNAPSHOT_ROW(outputs[END_FREE_AREA], 1, ts, zone)

		SET(migratetype, (uint8_t)type);
		columns->page_order[i] = (uint8_t)order;
		columns->nr_free[i] = zone->nr_free[order][type];
		columns->capped[i] = false;
	}
	if (!outputs[END_FREE_BLOCK])
		return;
	for (uint32_t f = m->frames[list].next; f != list; f = m->frames[f].next) {
		struct free_block_columns *columns;
		BEGIN_SNAPSHOT_ROW(outputs[END_FREE_BLOCK], 1, ts, zone)

		columns->migratetype[i] = (uint8_t)type;
		columns->page_order[i] = (uint8_t)order;
		columns->pfn[i] = frame_pfn(m, f);
	}
}

static void write_pageblocks(const struct model *m, const struct zone *zone, struct output *output,
			     uint64_t nr_blocks[NR_MIGRATETYPE], uint64_t ts)
{
	uint32_t pages = 1u << m->pageblock_order;

	for (uint32_t start = block_start(m, zone->start); start < zone->end; start += pages) {
		const struct pageblock *block = frame_block(m, start);
		struct pageblock_columns *columns;

		if (!block_exists(m, block))
			continue;
		nr_blocks[block->migratetype]++;
		if (!output)
			continue;
		BEGIN_SNAPSHOT_ROW(output, 1, ts, zone)

		columns->pfn[i] = zone->base_pfn + (start - zone->base);
		columns->migratetype[i] = block->migratetype;
		columns->guessed[i] = false;
		if (block->lru_known || !block->nr_old)
			SET(nr_movable,
			    (uint16_t)(block->nr_live[MIGRATETYPE_MOVABLE] + block->old_movable));
	}
}

static void write_block_count(const struct zone *zone, int type, uint64_t nr, struct output *output,
			      uint64_t ts)
{
	struct block_count_columns *columns;
	BEGIN_SNAPSHOT_ROW(output, 1, ts, zone)

	columns->migratetype[i] = (uint8_t)type;
	columns->nr_blocks[i] = nr;
}

void snapshot_write(const struct model *m, struct output *const outputs[NR_END], uint64_t ts)
{
	for (int z = 0; z < m->nr_zones; z++) {
		const struct zone *zone = &m->zones[z];
		uint64_t nr_blocks[NR_MIGRATETYPE] = {0};

		write_zone(zone, outputs[END_ZONE], ts);
		write_pageblocks(m, zone, outputs[END_PAGEBLOCK], nr_blocks, ts);
		for (int type = 0; type < NR_MIGRATETYPE; type++) {
			if (nr_blocks[type] || type <= MIGRATETYPE_HIGHATOMIC)
				write_block_count(zone, type, nr_blocks[type],
						  outputs[END_BLOCK_COUNT], ts);
			for (int order = 0; order <= m->max_order; order++)
				write_free_list(m, zone, order, type, outputs, ts);
		}
	}
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		write_pcp(m, &m->pcps[i], outputs[END_PCP], ts);
		write_pcp_pages(m, &m->pcps[i], outputs[END_PCP_PAGE], ts);
	}
}
