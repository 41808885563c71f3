/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - a queue of rows of one table, in batches.
 *
 * The writer asks for a row and fills it. Full batches wait for the reader, oldest first. A batch
 * is reused after its consumer releases it: memory grows only with the batches not released.
 */
#pragma once

#include "batch.h"

struct output;

/* Batches of `rows` rows each. -ENOMEM. */
int output_new(struct output **out, const struct table *table, size_t rows, struct error *err);
void output_free(struct output *o);

/*
 * Add a row and return its number in the batch. `columns` is the address of a struct
 * <table>_columns pointer, which is set to the batch's columns. Nullable values of the
 * row are null. Without memory for another batch the row is lost, and output_error()
 * reports it.
 */
size_t output_row(struct output *o, void *columns);

/* -ENOMEM if rows were lost. */
int output_error(const struct output *o, struct error *err);

/* The oldest full batch, or, with `flush`, also the one being filled; else NULL. */
struct batch *output_pop(struct output *o, bool flush);
