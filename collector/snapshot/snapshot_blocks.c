// SPDX-License-Identifier: Apache-2.0
#include "snapshot_blocks.h"
#include "snapshot_writer.h"

#include <string.h>
#include <strings.h>

/* The canonical number of a name of the tape. */
static uint8_t labelled(const struct labels *labels, const char *name)
{
	for (int32_t i = 0; i < labels->nr; i++) {
		size_t length = (size_t)(labels->offsets[i + 1] - labels->offsets[i]);

		if (strlen(name) == length &&
		    !strncasecmp(name, labels->text + labels->offsets[i], length))
			return (uint8_t)i;
	}
	return UNKNOWN;
}

uint8_t zone_number(const struct snapshot_images *im, uint32_t index)
{
	return labelled(&zone_labels, im->control->zone_name[index]);
}

uint8_t migratetype(const struct kernel_layout *l, unsigned int type)
{
	const int kernel[NR_MIGRATETYPE] = {
		[MIGRATETYPE_UNMOVABLE] = l->MIGRATE_UNMOVABLE_,
		[MIGRATETYPE_MOVABLE] = l->MIGRATE_MOVABLE_,
		[MIGRATETYPE_RECLAIMABLE] = l->MIGRATE_RECLAIMABLE_,
		[MIGRATETYPE_HIGHATOMIC] = l->MIGRATE_HIGHATOMIC_,
		[MIGRATETYPE_CMA] = l->MIGRATE_CMA_,
		[MIGRATETYPE_ISOLATE] = l->MIGRATE_ISOLATE_,
		[MIGRATETYPE_RESERVE] = -1, /* gone since 4.4 */
	};

	for (uint8_t i = 0; i < NR_MIGRATETYPE; i++)
		if (kernel[i] == (int)type)
			return i;
	return UNKNOWN;
}

/* Bits of one pageblock (get_pfnblock_flags_mask, 5.19; get_pfnblock_bit, 6.17). */
unsigned int pageblock_bits(const struct kernel_layout *l)
{
	int bits = l->NR_PAGEBLOCK_BITS_ >= 0 ? l->NR_PAGEBLOCK_BITS_ : l->__NR_PAGEBLOCK_BITS_;
	unsigned int rounded = 1;

	while ((int)rounded < bits)
		rounded *= 2;
	return rounded;
}

struct block block_at(const struct snapshot_images *im, uint32_t z, uint64_t pfn)
{
	enum { TYPE_MASK = 7 }; /* three bits of migratetype come first */
	const struct zone_place *place = &im->places[z];
	const struct kernel_layout *l = &im->control->layout;
	unsigned int shift = im->control->section_shift;
	uint64_t section = (pfn >> shift) - (place->start_pfn >> shift);
	uint64_t bit = (pfn & ((1ull << shift) - 1)) >> im->pageblock_order;
	const struct section_image *si = &im->sections[place->first_section + section];
	unsigned int bits;

	bit *= pageblock_bits(l);
	if (section >= place->nr_sections || !si->mem_map)
		return (struct block){UNKNOWN, false};
	bits = si->before[bit / 8] >> bit % 8;
	return (struct block){
		migratetype(l, bits & TYPE_MASK),
		l->PB_migrate_isolate_ >= 0 && bits >> l->PB_migrate_isolate_ & 1,
	};
}

void write_blocks(struct writer *w, uint32_t z)
{
	const struct zone_place *place = &w->im->places[z];
	uint64_t pages = 1ull << w->im->pageblock_order, count[NR_MIGRATETYPE] = {0};
	uint64_t end = place->start_pfn + place->spanned;

	if (end > place->first_deferred_pfn)
		end = place->first_deferred_pfn;
	for (uint64_t pfn = place->start_pfn & ~(pages - 1); pfn < end; pfn += pages) {
		struct pageblock_columns *to = COLUMNS(w, TABLE_PAGEBLOCK, pageblock);
		struct block block = block_at(w->im, z, pfn);
		size_t row;

		if (block.type == UNKNOWN)
			continue;
		row = next_row(w, TABLE_PAGEBLOCK);
		count[block.isolated ? MIGRATETYPE_ISOLATE : block.type]++;
		SET_PLACE(w, z, to, row);
		to->pfn[row] = pfn;
		to->migratetype[row] = block.type;
		to->isolated[row] = block.isolated;
		if (w->im->control->layout.PB_migrate_isolate_ >= 0)
			set_valid(to->isolated_valid, row);
		to->guessed[row] = false;
	}
	for (uint8_t type = 0; type < NR_MIGRATETYPE; type++) {
		struct block_count_columns *to = COLUMNS(w, TABLE_BLOCK_COUNT, block_count);
		size_t row = next_row(w, TABLE_BLOCK_COUNT);

		SET_PLACE(w, z, to, row);
		to->migratetype[row] = type;
		to->nr_blocks[row] = count[type];
	}
}
