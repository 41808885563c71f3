// SPDX-License-Identifier: Apache-2.0
#include "batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* alignment that Arrow recommends for buffers */

static size_t bitmap_bytes(size_t rows)
{
	return (rows / 8 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t value_bytes(const struct column *column, size_t rows)
{
	return (rows * column->width + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int batch_new(struct batch **out, const struct table *table, size_t capacity, struct error *err)
{
	size_t size = 0, rows = (capacity + 63) / 64 * 64;
	struct batch *batch;
	char *memory;
	int slots = 0;

	*out = NULL;
	for (int c = 0; c < table->nr_columns; c++) {
		const struct column *column = &table->columns[c];

		size += value_bytes(column, rows);
		size += column->nullable ? bitmap_bytes(rows) : 0;
		slots = column->slot + (column->nullable ? 2 : 1);
	}
	batch = calloc(1, sizeof(*batch) + slots * sizeof(void *));
	if (batch)
		batch->memory = calloc(1, size + ALIGNMENT - 1);
	if (!batch || !batch->memory) {
		free(batch);
		return fail(err, ENOMEM, "no memory for %zu rows of %s", rows, table->name);
	}
	memory = (char *)(((uintptr_t)batch->memory + ALIGNMENT - 1) & ~(uintptr_t)(ALIGNMENT - 1));
	batch->table = table;
	batch->capacity = rows;
	batch->slots = (void **)(batch + 1);
	for (int c = 0; c < table->nr_columns; c++) {
		const struct column *column = &table->columns[c];

		batch->slots[column->slot] = memory;
		memory += value_bytes(column, rows);
		if (column->nullable) {
			batch->slots[column->slot + 1] = memory;
			memory += bitmap_bytes(rows);
		}
	}
	*out = batch;
	return 0;
}

static void batch_destroy(struct batch *batch)
{
	free(batch->memory);
	free(batch);
}

enum { IDLE, BUSY, ORPHANED };

void batch_free(struct batch *batch)
{
	int busy = BUSY;

	if (!batch)
		return;
	if (!__atomic_compare_exchange_n(&batch->busy, &busy, ORPHANED, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		batch_destroy(batch);
}

static void batch_put(struct batch *batch)
{
	int busy = BUSY;

	if (!__atomic_compare_exchange_n(&batch->busy, &busy, IDLE, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		batch_destroy(batch);
}

bool batch_idle(const struct batch *batch)
{
	return __atomic_load_n(&batch->busy, __ATOMIC_ACQUIRE) == IDLE;
}

void batch_clear(struct batch *batch)
{
	size_t rows = batch->nr < batch->capacity ? batch->nr + 1 : batch->nr;

	batch->nr = 0;
	for (int c = 0; c < batch->table->nr_columns; c++) {
		const struct column *column = &batch->table->columns[c];

		if (!column->nullable)
			continue;
		memset(batch->slots[column->slot], 0, rows * column->width);
		memset(batch->slots[column->slot + 1], 0, bitmap_bytes(rows + 7));
	}
}

/*
 * One allocation holds a whole exported tree. Children are only reachable
 * through their parent, so their release just marks them released.
 */
struct schema_tree {
	struct ArrowSchema *children[TABLE_COLUMNS_MOST];
	struct ArrowSchema child[TABLE_COLUMNS_MOST], dictionary[TABLE_COLUMNS_MOST];
};

static void release_child_schema(struct ArrowSchema *schema)
{
	schema->release = NULL;
}

static void release_schema(struct ArrowSchema *schema)
{
	for (int64_t i = 0; i < schema->n_children; i++)
		if (schema->children[i]->release)
			schema->children[i]->release(schema->children[i]);
	free(schema->private_data);
	schema->release = NULL;
}

int table_export_schema(const struct table *table, struct ArrowSchema *out, struct error *err)
{
	struct schema_tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return fail(err, ENOMEM, "no memory for the schema of %s", table->name);
	for (int c = 0; c < table->nr_columns; c++) {
		const struct column *column = &table->columns[c];

		tree->children[c] = &tree->child[c];
		tree->child[c] = (struct ArrowSchema){
			.format = column->format,
			.name = column->name,
			.flags = column->nullable ? ARROW_FLAG_NULLABLE : 0,
			.release = release_child_schema,
		};
		if (!column->labels)
			continue;
		tree->child[c].dictionary = &tree->dictionary[c];
		tree->dictionary[c] = (struct ArrowSchema){
			.format = "u",
			.name = "",
			.release = release_child_schema,
		};
	}
	*out = (struct ArrowSchema){
		.format = "+s",
		.name = "",
		.n_children = table->nr_columns,
		.children = tree->children,
		.release = release_schema,
		.private_data = tree,
	};
	return 0;
}

struct array_tree {
	struct batch *batch;
	const void *no_validity; /* the struct array has no nulls of its own */
	struct ArrowArray *children[TABLE_COLUMNS_MOST];
	struct ArrowArray child[TABLE_COLUMNS_MOST], dictionary[TABLE_COLUMNS_MOST];
	const void *buffers[TABLE_COLUMNS_MOST][2], *label_buffers[TABLE_COLUMNS_MOST][3];
};

static void release_child_array(struct ArrowArray *array)
{
	array->release = NULL;
}

static void release_array(struct ArrowArray *array)
{
	struct array_tree *tree = array->private_data;

	for (int64_t i = 0; i < array->n_children; i++)
		if (array->children[i]->release)
			array->children[i]->release(array->children[i]);
	batch_put(tree->batch);
	free(tree);
	array->release = NULL;
}

int batch_export(struct batch *batch, struct ArrowArray *out, struct error *err)
{
	const struct table *table = batch->table;
	struct array_tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return fail(err, ENOMEM, "no memory to hand out rows of %s", table->name);
	for (int c = 0; c < table->nr_columns; c++) {
		const struct column *column = &table->columns[c];
		const struct labels *labels = column->labels;

		tree->children[c] = &tree->child[c];
		tree->buffers[c][0] = column->nullable ? batch->slots[column->slot + 1] : NULL;
		tree->buffers[c][1] = batch->slots[column->slot];
		tree->child[c] = (struct ArrowArray){
			.length = (int64_t)batch->nr,
			.null_count = column->nullable ? -1 : 0,
			.n_buffers = 2,
			.buffers = tree->buffers[c],
			.release = release_child_array,
		};
		if (!labels)
			continue;
		tree->label_buffers[c][1] = labels->offsets;
		tree->label_buffers[c][2] = labels->text;
		tree->child[c].dictionary = &tree->dictionary[c];
		tree->dictionary[c] = (struct ArrowArray){
			.length = labels->nr,
			.n_buffers = 3,
			.buffers = tree->label_buffers[c],
			.release = release_child_array,
		};
	}
	tree->batch = batch;
	*out = (struct ArrowArray){
		.length = (int64_t)batch->nr,
		.n_buffers = 1,
		.buffers = &tree->no_validity,
		.n_children = table->nr_columns,
		.children = tree->children,
		.release = release_array,
		.private_data = tree,
	};
	__atomic_store_n(&batch->busy, BUSY, __ATOMIC_RELEASE);
	return 0;
}

int table_check_schema(const struct table *table, const struct ArrowSchema *schema,
		       struct error *err)
{
	if (strcmp(schema->format, "+s") || schema->n_children != table->nr_columns)
		return fail(err, EINVAL, "table %s has %d columns, not %lld", table->name,
			    table->nr_columns, (long long)schema->n_children);
	for (int c = 0; c < table->nr_columns; c++) {
		const struct column *column = &table->columns[c];
		const struct ArrowSchema *child = schema->children[c];

		if (strcmp(child->name, column->name))
			return fail(err, EINVAL, "column %d of table %s is '%s', not '%s'", c,
				    table->name, child->name, column->name);
		if (strcmp(child->format, column->format) || !child->dictionary != !column->labels)
			return fail(err, EINVAL, "column %s.%s has Arrow format '%s', not '%s'",
				    table->name, column->name, child->format, column->format);
	}
	return 0;
}

/* Whether a dictionary has the labels of the column, in their order. */
static bool has_labels(const struct ArrowArray *dictionary, const struct labels *labels)
{
	const int32_t *offsets;
	size_t bytes = (size_t)labels->offsets[labels->nr];

	if (!dictionary || dictionary->length != labels->nr || dictionary->offset ||
	    dictionary->n_buffers != 3)
		return false;
	offsets = dictionary->buffers[1];
	return !memcmp(offsets, labels->offsets, ((size_t)labels->nr + 1) * sizeof(*offsets)) &&
	       !memcmp(dictionary->buffers[2], labels->text, bytes);
}

int table_borrow(const struct table *table, const struct ArrowArray *array, void *columns,
		 size_t *nr, struct error *err)
{
	void **slots = columns;

	if (array->length < 0)
		return fail(err, EINVAL, "a batch of %s has %lld rows", table->name,
			    (long long)array->length);
	if (array->offset || array->n_children != table->nr_columns)
		return fail(err, EINVAL, "a batch of %s is sliced or has %lld columns", table->name,
			    (long long)array->n_children);
	for (int c = 0; c < table->nr_columns; c++) {
		const struct column *column = &table->columns[c];
		const struct ArrowArray *child = array->children[c];

		if (child->offset || child->n_buffers != 2 || child->length < array->length)
			return fail(err, EINVAL, "column %s.%s is sliced or short", table->name,
				    column->name);
		if (!column->nullable && child->null_count > 0)
			return fail(err, EINVAL, "column %s.%s has nulls", table->name,
				    column->name);
		if (column->labels && array->length &&
		    !has_labels(child->dictionary, column->labels))
			return fail(err, EINVAL, "column %s.%s has other labels", table->name,
				    column->name);
		slots[column->slot] = (void *)child->buffers[1];
		if (column->nullable)
			slots[column->slot + 1] =
				child->null_count ? (void *)child->buffers[0] : NULL;
	}
	*nr = (size_t)array->length;
	return 0;
}

int table_read(const struct table *table, const struct ArrowSchema *schema,
	       const struct ArrowArray *array, void *columns, size_t *nr, struct error *err)
{
	int ret = table_check_schema(table, schema, err);

	return ret ? ret : table_borrow(table, array, columns, nr, err);
}
