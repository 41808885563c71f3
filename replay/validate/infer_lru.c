// SPDX-License-Identifier: Apache-2.0
/* Pages that were on an LRU list at the start, as later events show. */
#include "predict.h"

void infer_lru(struct validate *v)
{
	const struct model *m = v->m;

	for (uint32_t b = 0; v->lru.pages && b < m->nr_frames >> m->pageblock_order; b++) {
		uint32_t start = b << m->pageblock_order, first = m->zones[m->blocks[b].zone].start;

		if (v->lru.pages[b] <= m->blocks[b].old_lru)
			continue;
		emit_inferred(v,
			      (struct inferred){
				      .at = v->run.load.first,
				      .kind = INFERRED_KIND_LRU,
				      .frame = start > first ? start : first,
				      .migratetype = m->blocks[b].migratetype,
				      .fields = FIELD_PAGES,
				      .pages = v->lru.pages[b],
			      },
			      NULL);
		lru_learn(m, start, v->lru.pages[b]);
	}
	lru_free(&v->lru);
}
