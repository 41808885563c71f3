// SPDX-License-Identifier: Apache-2.0
#include "emit_rows.h"

/* Begin a row with the columns that both tables have. */
#define BEGIN_ROW(output)                                                                          \
	const struct moment *now = &rows->model->now;                                              \
	size_t i = output_row(output, &columns);                                                   \
	columns->ts[i] = now->ts + row->after_ns;                                                  \
	columns->cpu[i] = now->cpu;                                                                \
	columns->pid[i] = now->pid;                                                                \
	columns->flags[i] = now->flags;                                                            \
	columns->at[i] = rows->model->events ? rows->model->events->rows : 0;                      \
	columns->kind[i] = (uint8_t)row->kind;                                                     \
	if (row->node >= 0)                                                                        \
		SET_VALUE(columns, node, i, (int16_t)row->node);                                   \
	if (row->zone >= 0)                                                                        \
		SET_VALUE(columns, zone, i, (uint8_t)row->zone);                                   \
	if (row->order >= 0)                                                                       \
		SET_VALUE(columns, page_order, i, (int8_t)row->order);

void emit_reclaim(const struct row_outputs *rows, const struct reclaim_row *row)
{
	struct reclaim_columns *columns;

	if (!rows->reclaim)
		return;
	BEGIN_ROW(rows->reclaim)
	if (row->kind == RECLAIM_KIND_WAKEUP_KSWAPD ||
	    row->kind == RECLAIM_KIND_DIRECT_RECLAIM_BEGIN ||
	    row->kind == RECLAIM_KIND_NODE_RECLAIM_BEGIN)
		SET_VALUE(columns, gfp_flags, i, row->gfp_flags);
	if (row->kind == RECLAIM_KIND_DIRECT_RECLAIM_END ||
	    row->kind == RECLAIM_KIND_NODE_RECLAIM_END)
		SET_VALUE(columns, nr_reclaimed, i, row->nr_reclaimed);
}

uint64_t emit_direct_reclaim(const struct row_outputs *rows, const struct reclaim_row *row,
			     uint64_t since, uint64_t ns)
{
	uint64_t now = rows->model->now.ts, wait = since > now ? since - now : 0;
	struct reclaim_row edge = *row;

	edge.node = edge.zone = -1;
	edge.kind = RECLAIM_KIND_DIRECT_RECLAIM_BEGIN;
	edge.after_ns = wait;
	emit_reclaim(rows, &edge);
	edge.kind = RECLAIM_KIND_DIRECT_RECLAIM_END;
	edge.order = -1;
	edge.after_ns = wait + ns;
	emit_reclaim(rows, &edge);
	return now + edge.after_ns;
}

void emit_compaction(const struct row_outputs *rows, const struct compaction_row *row)
{
	struct compaction_columns *columns;

	if (!rows->compaction)
		return;
	BEGIN_ROW(rows->compaction)
	if (row->priority < 0)
		return;
	SET_VALUE(columns, gfp_flags, i, row->gfp_flags);
	SET_VALUE(columns, priority, i, (int16_t)row->priority);
}

void emit_compaction_run(const struct row_outputs *rows, const struct zone *zone, uint64_t after_ns,
			 uint64_t ns)
{
	struct compaction_row row = {
		.kind = COMPACTION_KIND_BEGIN,
		.node = zone->node,
		.zone = zone->type,
		.order = -1,
		.priority = -1,
		.after_ns = after_ns,
	};

	emit_compaction(rows, &row);
	row.kind = COMPACTION_KIND_END;
	row.after_ns += ns;
	emit_compaction(rows, &row);
}
