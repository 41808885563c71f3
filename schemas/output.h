/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - rows of one table on their way out, a batch at a time.
 *
 * The writer asks for a row and fills it; full batches wait in a queue for the
 * reader. Batches are used again once their consumer let go of them, so memory
 * grows to what the reader leaves lying and no further.
 */
#pragma once

#include "batch.h"

struct output;

/* Batches of `rows` rows each. -ENOMEM. */
int output_new(struct output **out, const struct table *table, size_t rows, struct error *err);
void output_free(struct output *o);

/*
 * A new row: its number, and where its columns are. `columns` is the address of a
 * struct <table>_columns pointer; nullable values of the row are null. When there is
 * no memory for another batch the row is lost: columns become NULL, and
 * output_error() tells.
 */
size_t output_row(struct output *o, void *columns);

/* -ENOMEM if rows were lost. */
int output_error(const struct output *o, struct error *err);

/* The oldest full batch, or, with `flush`, also the one being filled; else NULL. */
struct batch *output_pop(struct output *o, bool flush);
