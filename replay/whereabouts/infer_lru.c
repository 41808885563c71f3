// SPDX-License-Identifier: Apache-2.0
/* Pages that were on an LRU list at the start, as later events show. */
#include "whereabouts.h"

void infer_lru(struct whereabouts *where)
{
	const struct model *m = where->m;

	for (uint32_t b = 0; where->lru.pages && b < m->nr_frames >> m->pageblock_order; b++) {
		uint32_t start = b << m->pageblock_order, first = m->zones[m->blocks[b].zone].start;

		if (where->lru.pages[b] <= m->blocks[b].old_lru)
			continue;
		emit_inferred(where->score,
			      (struct inferred){
				      .at = where->run->load.first,
				      .kind = INFERRED_KIND_LRU,
				      .frame = start > first ? start : first,
				      .migratetype = m->blocks[b].migratetype,
				      .fields = FIELD_PAGES,
				      .pages = where->lru.pages[b],
			      },
			      NULL);
		lru_learn(m, start, where->lru.pages[b]);
	}
	lru_free(&where->lru);
}
