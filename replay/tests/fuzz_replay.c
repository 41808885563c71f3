// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_replay.c - hostile tapes for the engine.
 *
 * Bytes decide everything: the machine, the kernel row, the rows of the snapshot and of
 * reclaim, the events, and the shape of the Arrow arrays they come in. Most values are
 * such as tapes hold, for a tape that is refused at once tests little; some are anything.
 * Whatever the tape says, the engine - a free run, or validate - must refuse it in words or
 * play it, and leave a model whose books balance.
 *
 * `make fuzz` gives it to libFuzzer; the test fuzz.c feeds it inputs of its own.
 */
#include "fuzz_replay.h"

#include "model/buddy.h"
#include "model/model_check.h"
#include "model/policy_stack.h"
#include "freerun/replay.h"
#include "validate/validate.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CPUS = 3, MAX_NODES = 3, MAX_ROWS = 512, BLOCK = 512, ZONE_BLOCKS = 8 };

/* What is left of the input, and where the tape is by now. */
struct input {
	const uint8_t *data;
	size_t left;
	uint64_t ts, pfn, row;
};

/* The next bytes as a number; 0 when there are no more. */
static uint64_t take(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	bytes = bytes < in->left ? bytes : in->left;
	memcpy(&value, in->data, bytes);
	in->data += bytes;
	in->left -= bytes;
	return value;
}

static uint64_t below(struct input *in, uint64_t end)
{
	return take(in, 1) % end;
}

/* Once in a while; never when the input is used up. */
static bool rarely(struct input *in)
{
	return take(in, 1) >= 253;
}

static int some_order(struct input *in)
{
	static const uint8_t orders[] = {0, 0, 0, 0, 0, 1, 2, 3, 4, 9, 10};

	return orders[below(in, sizeof(orders))];
}

/* A pfn in the zones or a little past them; sometimes anything. */
static uint64_t some_pfn(struct input *in)
{
	switch (take(in, 1)) {
	case 255:
		return take(in, 8);
	case 254:
		return UINT64_MAX;
	default:
		return take(in, 2) % ((MAX_NODES + 1) * ZONE_BLOCKS * BLOCK);
	}
}

/*
 * The size or start of a zone: of a few pageblocks, or larger than any machine. What lies
 * between is only slow.
 */
static uint64_t some_span(struct input *in, uint64_t usual)
{
	uint64_t value = take(in, 8);

	if (!rarely(in))
		return usual;
	return value >> 40 ? value : value % (ZONE_BLOCKS * BLOCK);
}

/* Blocks side by side, as the lists of a snapshot would tile a zone in the end. */
static uint64_t next_block(struct input *in, int order)
{
	uint64_t pfn;

	if (rarely(in))
		return some_pfn(in);
	pfn = (in->pfn + below(in, 4) + (1ull << order) - 1) & ~((1ull << order) - 1);
	in->pfn = pfn + (1ull << order);
	return pfn;
}

static uint64_t some_ts(struct input *in)
{
	static const uint64_t window[] = {0,         1,          1000,         1000000,
					  250000000, 1000000000, 3600000000000};

	if (rarely(in))
		return take(in, 8);
	return in->ts += window[below(in, 200) % (below(in, 8) ? 4 : 7)];
}

static bool is(const struct column *column, const char *name)
{
	return !strcmp(column->name, name);
}

static bool is_list(const struct table *table)
{
	return table == &free_block_table || table == &block_guess_table ||
	       table == &pcp_page_table;
}

static uint64_t some_value(struct input *in, const struct table *table, const struct column *column,
			   uint64_t row, int order)
{
	if (is(column, "spanned") || is(column, "present") || is(column, "managed"))
		return some_span(in, ZONE_BLOCKS * BLOCK - below(in, 2) * 3);
	if (is(column, "start_pfn"))
		return some_span(in, row * ZONE_BLOCKS * BLOCK + below(in, 2) * 3);
	if (rarely(in))
		return take(in, 8);
	if (is(column, "pfn") && is_list(table))
		return next_block(in, order);
	if (is(column, "pfn") && table == &pageblock_table)
		return row * BLOCK;
	if (is(column, "pfn"))
		return some_pfn(in);
	if (is(column, "page_order"))
		return (uint64_t)order;
	if (is(column, "fallback_order"))
		return (uint64_t)order + below(in, 11);
	if (is(column, "node") && table == &zone_table)
		return row;
	if (is(column, "cpu") || is(column, "node"))
		return below(in, MAX_CPUS);
	if (is(column, "zone"))
		return below(in, 4) ? ZONE_NORMAL : below(in, NR_ZONE);
	if (is(column, "migratetype") || is(column, "fallback_migratetype"))
		return below(in, 4) ? below(in, 3) : below(in, NR_MIGRATETYPE);
	if (is(column, "kind"))
		return table == &event_table ? below(in, NR_EVENT_KIND) : below(in, 32);
	if (is(column, "ts"))
		return some_ts(in);
	if (is(column, "at"))
		return in->row += below(in, 64);
	if (is(column, "snapshot"))
		return 0;
	if (is(column, "pid"))
		return below(in, 4);
	/* Of huge pages and of the single ones that stand for them. */
	if (is(column, "gfp_flags") && below(in, 2))
		return GFP_HIGHMEM | GFP_MOVABLE | GFP_COMP | GFP_NOMEMALLOC | GFP_DIRECT_RECLAIM |
		       (below(in, 2) ? GFP_THISNODE | GFP_NORETRY : GFP_ZERO);
	return column->width == 4 ? take(in, 4) : take(in, 1);
}

static struct batch *some_rows(struct input *in, const struct table *table, size_t nr)
{
	struct batch *batch;

	if (batch_new(&batch, table, nr, NULL))
		abort();
	batch_clear(batch);
	batch->nr = nr;
	for (size_t row = 0; row < nr; row++) {
		int order = some_order(in);

		for (int c = 0; c < table->nr_columns; c++) {
			const struct column *column = &table->columns[c];
			char *values = batch->slots[column->slot];
			uint64_t value = some_value(in, table, column, row, order);

			memcpy(values + row * column->width, &value, column->width);
			if (column->nullable && !rarely(in))
				set_valid(batch->slots[column->slot + 1], row);
		}
	}
	return batch;
}

/* An array as no producer should make it. */
static void spoil(struct input *in, struct ArrowSchema *schema, struct ArrowArray *array)
{
	struct ArrowArray *child = array->children[below(in, (uint64_t)array->n_children)];

	switch (below(in, 9)) {
	case 0:
		array->offset = 1;
		break;
	case 1:
		array->length = -1;
		break;
	case 2:
		child->length = -1;
		break;
	case 3:
		child->length = array->length - 1;
		break;
	case 4:
		child->offset = 1;
		break;
	case 5:
		child->n_buffers = 1;
		break;
	case 6:
		child->null_count = 1;
		break;
	case 7:
		schema->format = "+l";
		break;
	default:
		schema->children[0]->name = "";
	}
}

/* The one of the two that plays. */
struct engine {
	struct replay *replay;
	struct validate *validate;
};

enum hand { LOAD, PREVIEW, FEED };

static int take_rows(struct engine *e, const char *table, enum hand hand,
		     const struct ArrowSchema *schema, const struct ArrowArray *array,
		     struct error *err)
{
	switch (hand) {
	case LOAD:
		return e->replay ? replay_load(e->replay, table, schema, array, err)
				 : validate_load(e->validate, table, schema, array, err);
	case PREVIEW:
		return e->replay ? 0 : validate_preview(e->validate, schema, array, err);
	default:
		return e->replay ? replay_feed(e->replay, schema, array, err)
				 : validate_feed(e->validate, schema, array, err);
	}
}

/* Hand rows over as a consumer of Arrow gets them; false if the engine refused. */
static bool hand_over(struct input *in, struct engine *e, struct batch *batch, enum hand hand)
{
	struct error err = {""};
	struct ArrowSchema schema;
	struct ArrowArray array;
	int64_t children;
	int ret;

	if (table_export_schema(batch->table, &schema, NULL) || batch_export(batch, &array, NULL))
		abort();
	children = array.n_children;
	if (rarely(in))
		spoil(in, &schema, &array);
	ret = take_rows(e, batch->table->name, hand, &schema, &array, &err);
	assert(!ret || (ret < 0 && err.msg[0]));
	array.n_children = children;
	array.release(&array);
	schema.release(&schema);
	batch_free(batch);
	return !ret;
}

static void drain(struct engine *e)
{
	while (e->replay ? replay_read(e->replay) : validate_read(e->validate))
		;
}

static void load_tape(struct input *in, struct engine *e, uint64_t nr_zones)
{
	static const struct table *const tables[] = {
		&pcp_table,      &pageblock_table, &free_block_table, &block_guess_table,
		&pcp_page_table, &reclaim_table,   &compaction_table, &inferred_table,
	};
	uint64_t nr = 1 + below(in, 6);

	hand_over(in, e, some_rows(in, &zone_table, nr_zones), LOAD);
	for (uint64_t i = 0; i < nr; i++)
		hand_over(in, e, some_rows(in, tables[below(in, 8)], below(in, 48)), LOAD);
	/* A tape that says nothing of free pages is refused: say something. */
	in->pfn = BLOCK;
	hand_over(in, e, some_rows(in, tables[2 + below(in, 2)], below(in, 16)), LOAD);
}

static void play(struct input *in, struct engine *e, uint64_t nr_zones)
{
	load_tape(in, e, nr_zones);
	in->ts = 1000000000;
	for (uint64_t batches = 1 + below(in, 3); batches; batches--) {
		uint64_t rows = in->left / 24;

		rows = rows < MAX_ROWS ? rows : MAX_ROWS;
		if (!below(in, 4))
			hand_over(in, e, some_rows(in, &event_table, rows / 2), PREVIEW);
		hand_over(in, e, some_rows(in, &event_table, rows), FEED);
		if (below(in, 2))
			drain(e);
	}
	if (e->replay)
		replay_finish(e->replay, NULL);
	else
		validate_finish(e->validate, NULL);
	drain(e);
}

static void check_books(struct engine *e)
{
	const struct model *m = e->replay ? replay_model(e->replay) : validate_model(e->validate);
	const char *wrong = m ? model_check(m) : NULL;

	if (!wrong)
		return;
	fprintf(stderr, "the model is broken: %s\n", wrong);
	abort();
}

static int new_engine(struct input *in, struct engine *e, const struct replay_config *config)
{
	struct validate_config validating = {.run = config->run, .nr_rows = take(in, 1)};

	validating.run.recorded = NULL;
	return below(in, 2) ? replay_new(&e->replay, config, NULL)
			    : validate_new(&e->validate, &validating, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const specs[] = {
		"mainline",
		"nofragment",
		"nofragment:mode=always",
		"nofragment:mode=off",
		"mainline:boost_factor=0",
		"watermark_boost:factor=1000000",
		"stall",
		"thp_numa:mode=local_then_spill",
		"thp_numa:mode=thisnode",
		"order_walk:mode=guest",
		"zone_reclaim_mode",
		"zonelist:order=zone",
		"fallback:kernel=2.6.33",
		"fallback:kernel=4.20",
		"fallback:kernel=6.12.19",
		"fallback:kernel=6.18",
		"reserve:mode=bug",
		"reserve:mode=fix1,nr_reserve_blocks=3",
		"reserve:mode=fix2",
		"reserve:mode=fix3",
		"reserve:mode=fix4,nr_reserve_blocks=100",
		"pcp:mode=fixed",
		"pcp:mode=auto,high_min=0,high_max=7,scale_max=6,tick_ms=1",
		"alloc_batch:order=9,gap_us=1000000",
		"fake_numa:nodes=5",
		"split_zone:parts=3",
		"alloc_batch:order=1",
		"zone_lock:cpu_scale=3",
	};
	const uint64_t nr_specs = sizeof(specs) / sizeof(specs[0]);
	struct input in = {.data = data, .left = size};
	uint8_t distances[MAX_NODES * MAX_NODES];
	uint16_t cpu_nodes[MAX_CPUS];
	struct span spans[2];
	struct replay_config config = {
		.run.machine = {.cpu_nodes = cpu_nodes, .node_distances = distances}};
	int nr_kernels = 0;
	struct engine e = {0};

	while (kernels[nr_kernels].name)
		nr_kernels++;
	config.run.machine.pageblock_order = below(&in, 4) ? 9 : (int)below(&in, 12);
	config.run.machine.max_order = rarely(&in) ? (int)below(&in, 16) : 10;
	config.run.machine.nr_cpus = 1 + (int)below(&in, MAX_CPUS);
	config.run.machine.nr_nodes = 1 + (int)below(&in, MAX_NODES);
	config.run.machine.pcp_high_fraction = rarely(&in) ? (int)take(&in, 3) : 0;
	config.run.policies = &specs[below(&in, nr_specs - 1)];
	/* Two that stand side by side may decide the same: refused. */
	config.run.nr_policies = (int)below(&in, 3);
	config.run.interval_ns = below(&in, 2) ? 1000000000 : 1000000;
	config.events = below(&in, 2);
	config.run.spans = spans;
	config.run.nr_spans = below(&in, 8) ? 0 : below(&in, 3);
	config.run.kernel = &kernels[below(&in, (uint64_t)nr_kernels)];
	config.run.recorded = below(&in, 2) ? &kernels[below(&in, (uint64_t)nr_kernels)] : NULL;
	for (int i = 0; i < MAX_CPUS; i++)
		cpu_nodes[i] =
			(uint16_t)(rarely(&in) ? take(&in, 2)
					       : below(&in, (uint64_t)config.run.machine.nr_nodes));
	for (int i = 0; i < MAX_NODES * MAX_NODES; i++)
		distances[i] = (uint8_t)take(&in, 1);
	for (int i = 0; i < 2; i++) {
		spans[i].first = take(&in, 1) + (i ? 128 : 0);
		spans[i].end = spans[i].first + below(&in, 128);
	}
	if (new_engine(&in, &e, &config))
		return 0;
	play(&in, &e, 1 + below(&in, MAX_NODES));
	check_books(&e);
	replay_free(e.replay);
	validate_free(e.validate);
	return 0;
}
