// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct slot {
	struct batch *batch;
	enum { FILLING, FULL, WITH_READER } state;
	uint64_t sequence; /* of FULL batches: the order they were filled in */
};

struct output {
	const struct table *table;
	size_t rows;
	struct batch *filling;
	struct slot *slots;
	int nr;
	uint64_t sequence;
	bool lost;
	uint64_t nowhere;                       /* where lost values go */
	void *lost_row[2 * TABLE_COLUMNS_MOST]; /* a row of these: each column, and its nulls */
};

int output_new(struct output **out, const struct table *table, size_t rows, struct error *err)
{
	struct output *o = calloc(1, sizeof(*o));

	*out = o;
	if (!o)
		return fail(err, ENOMEM, "no memory for rows of %s", table->name);
	o->table = table;
	o->rows = rows;
	return 0;
}

void output_free(struct output *o)
{
	if (!o)
		return;
	for (int i = 0; i < o->nr; i++)
		batch_free(o->slots[i].batch);
	free(o->slots);
	free(o);
}

static struct slot *slot_of(struct output *o, const struct batch *batch)
{
	int i = 0;

	while (o->slots[i].batch != batch)
		i++;
	return &o->slots[i];
}

static void finish_filling(struct output *o)
{
	struct slot *slot = slot_of(o, o->filling);

	slot->state = FULL;
	slot->sequence = o->sequence++;
	o->filling = NULL;
}

static bool start_filling(struct output *o)
{
	struct slot *slots;
	int i = 0;

	while (i < o->nr && (o->slots[i].state != WITH_READER || !batch_idle(o->slots[i].batch)))
		i++;
	if (i == o->nr) {
		slots = realloc(o->slots, (o->nr + 1) * sizeof(*slots));
		if (!slots)
			return false;
		o->slots = slots;
		if (batch_new(&slots[i].batch, o->table, o->rows, NULL))
			return false;
		o->nr++;
	}
	o->slots[i].state = FILLING;
	o->filling = o->slots[i].batch;
	batch_clear(o->filling);
	return true;
}

size_t output_row(struct output *o, void *columns)
{
	if (o->filling && o->filling->nr == o->filling->capacity)
		finish_filling(o);
	if (!o->filling && !start_filling(o)) {
		o->lost = true;
		for (int slot = 0; slot < 2 * TABLE_COLUMNS_MOST; slot++)
			o->lost_row[slot] = &o->nowhere;
		*(void **)columns = o->lost_row;
		return 0;
	}
	*(void **)columns = o->filling->slots;
	return o->filling->nr++;
}

int output_error(const struct output *o, struct error *err)
{
	if (!o->lost)
		return 0;
	return fail(err, ENOMEM, "no memory for the rows of %s", o->table->name);
}

struct batch *output_pop(struct output *o, bool flush)
{
	struct slot *oldest = NULL;

	if (flush && o->filling)
		finish_filling(o);
	for (int i = 0; i < o->nr; i++)
		if (o->slots[i].state == FULL &&
		    (!oldest || o->slots[i].sequence < oldest->sequence))
			oldest = &o->slots[i];
	if (!oldest)
		return NULL;
	oldest->state = WITH_READER;
	return oldest->batch;
}
