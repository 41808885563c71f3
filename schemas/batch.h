/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch.h - rows of one table, column by column, in and out of Arrow.
 *
 *   struct table   describes a table; one per schemas/<name>.toml, generated.
 *   struct batch   memory for up to `capacity` rows, reused from batch to batch.
 *
 * A writer fills the columns (see the generated struct <table>_columns), sets
 * batch->nr and exports: the Arrow array borrows the memory, and the batch is
 * busy until the consumer releases it. A reader borrows columns from an Arrow
 * array, which has to outlive their use. Neither direction copies a row.
 */
#pragma once

#include "arrow.h"
#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The names of an enum, laid out as the buffers of an Arrow utf8 array. */
struct labels {
	int32_t nr;
	const int32_t *offsets;
	const char *text;
};

enum { TABLE_COLUMNS_MOST = 128 }; /* of a table; the generated tables are checked */

struct column {
	const char *name;
	const char *format; /* Arrow format of the values, or of the enum's index */
	uint8_t width;      /* bytes of one value */
	bool nullable;
	uint8_t slot; /* index of its pointer in struct <table>_columns */
	const struct labels *labels;
	const char *bits;          /* key of the names in tape.toml's [bits], or "" */
	const char *const *fields; /* tracepoint fields that supply it, or NULL */
};

struct kind {
	const char *name;
	const char *const *tracepoints; /* "system:event", ends with NULL */
};

struct table {
	const char *name;
	int nr_columns;
	const struct column *columns;
	int nr_kinds;
	const struct kind *kinds;
};

struct batch {
	const struct table *table;
	size_t nr;       /* rows filled */
	size_t capacity; /* in rows, a multiple of 64 */
	void **slots;    /* column pointers; cast to struct <table>_columns */
	void *memory;    /* of all columns */
	int busy;        /* atomic: a consumer still holds the memory */
};

/* Zeroed memory for `capacity` rows (rounded up to 64), none of it touched yet. -ENOMEM. */
int batch_new(struct batch **out, const struct table *table, size_t capacity, struct error *err);

/* Free a batch without waiting: a busy one is freed when its consumer releases it. */
void batch_free(struct batch *batch);

/* Whether no consumer holds the memory, so that the batch may be filled again. */
bool batch_idle(const struct batch *batch);

/*
 * Remove all rows, and the one that a writer may have begun: make their values in nullable columns
 * null with 0 stored beneath. A writer then sets only the values that it has, and equal rows are
 * equal bytes.
 */
void batch_clear(struct batch *batch);

/* Export the Arrow schema of the table. The caller releases it. */
int table_export_schema(const struct table *table, struct ArrowSchema *out, struct error *err);

/* Hand the rows to a consumer; the batch is busy until `out` is released. */
int batch_export(struct batch *batch, struct ArrowArray *out, struct error *err);

/* -EINVAL with the column's name unless `schema` is this table's. */
int table_check_schema(const struct table *table, const struct ArrowSchema *schema,
		       struct error *err);

/*
 * Point `columns` (a struct <table>_columns) at the values of `array`, whose
 * schema was checked. A validity pointer is NULL where no value is null.
 * Returns -EINVAL for an array with an offset, of another shape, or with other labels
 * than the table's. The sizes of its buffers and the indices of labels are the caller's
 * to check: an Arrow array does not say how large its buffers are.
 */
int table_borrow(const struct table *table, const struct ArrowArray *array, void *columns,
		 size_t *nr, struct error *err);

/* table_check_schema() and table_borrow() in one call. */
int table_read(const struct table *table, const struct ArrowSchema *schema,
	       const struct ArrowArray *array, void *columns, size_t *nr, struct error *err);

/* Arrow validity bitmaps: bit i of the bitmap, least significant bit first. */
static inline bool is_valid(const uint8_t *bitmap, size_t i)
{
	return !bitmap || (bitmap[i >> 3] >> (i & 7) & 1);
}

static inline void set_valid(uint8_t *bitmap, size_t i)
{
	bitmap[i >> 3] |= (uint8_t)(1u << (i & 7));
}

/* The value of a nullable column in row i. */
#define SET_VALUE(columns, column, i, value)                                                       \
	do {                                                                                       \
		(columns)->column[i] = (value);                                                    \
		set_valid((columns)->column##_valid, i);                                           \
	} while (0)

#define VALUE_OR(columns, column, i, otherwise)                                                    \
	(is_valid((columns)->column##_valid, i) ? (columns)->column[i] : (otherwise))
