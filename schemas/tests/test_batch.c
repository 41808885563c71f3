// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "tables.h"

#include <errno.h>
#include <string.h>

static struct batch *lost_gap(uint64_t from, bool known)
{
	struct lost_columns *to;
	struct batch *batch;

	check(!batch_new(&batch, &lost_table, 100, NULL));
	to = (struct lost_columns *)batch->slots;
	batch_clear(batch);
	to->cpu[0] = 3;
	to->from_ts[0] = from;
	set_valid(to->from_ts_valid, 0);
	if (known) {
		to->events[0] = 9;
		set_valid(to->events_valid, 0);
	}
	batch->nr = 1;
	return batch;
}

TEST(rows_come_back_as_they_were)
{
	struct batch *batch = lost_gap(77, true);
	struct lost_columns back;
	struct ArrowSchema schema;
	struct ArrowArray array;
	struct error err;
	size_t nr;

	check(!table_export_schema(&lost_table, &schema, &err));
	check(!table_check_schema(&lost_table, &schema, &err));
	check(!batch_export(batch, &array, &err));
	check(!table_borrow(&lost_table, &array, &back, &nr, &err));
	check(nr == 1 && back.cpu[0] == 3 && back.from_ts[0] == 77 && back.events[0] == 9);
	check(is_valid(back.from_ts_valid, 0) && !is_valid(back.to_ts_valid, 0));
	schema.release(&schema);
	array.release(&array);
	check(!schema.release && !array.release);
	batch_free(batch);
}

TEST(a_batch_is_busy_until_its_array_is_released)
{
	struct batch *batch = lost_gap(1, false);
	struct ArrowArray array;

	check(batch_idle(batch));
	check(!batch_export(batch, &array, NULL));
	check(!batch_idle(batch));
	array.release(&array);
	check(batch_idle(batch));
	batch_free(batch);
}

TEST(a_freed_batch_lives_as_long_as_its_array)
{
	struct batch *batch = lost_gap(5, false);
	struct ArrowArray array;

	check(!batch_export(batch, &array, NULL));
	batch_free(batch);
	check(((const uint64_t *)array.children[1]->buffers[1])[0] == 5);
	array.release(&array);
}

TEST(clearing_makes_all_values_null_and_zero)
{
	struct batch *batch = lost_gap(5, true);
	const struct lost_columns *columns = (struct lost_columns *)batch->slots;

	batch_clear(batch);
	check(batch->nr == 0 && !is_valid(columns->from_ts_valid, 0));
	check(!is_valid(columns->events_valid, 0));
	check(columns->from_ts[0] == 0 && columns->events[0] == 0);
	batch_free(batch);
}

TEST(capacity_is_rounded_up_to_whole_words)
{
	struct batch *batch;

	check(!batch_new(&batch, &lost_table, 1, NULL));
	check(batch->capacity == 64);
	batch_free(batch);
	check(!batch_new(&batch, &lost_table, 65, NULL));
	check(batch->capacity == 128);
	batch_free(batch);
}

TEST(another_tables_rows_are_refused_by_name)
{
	struct ArrowSchema schema;
	struct error err;

	check(!table_export_schema(&event_table, &schema, NULL));
	check(table_check_schema(&lost_table, &schema, &err) == -EINVAL);
	check(!strcmp(err.msg, "table lost has 4 columns, not 13"));
	schema.children[2]->name = "thread";
	check(table_check_schema(&event_table, &schema, &err) == -EINVAL);
	check(!strcmp(err.msg, "column 2 of table event is 'thread', not 'pid'"));
	schema.children[2]->name = "pid";
	schema.children[2]->format = "l";
	check(table_check_schema(&event_table, &schema, &err) == -EINVAL);
	check(!strcmp(err.msg, "column event.pid has Arrow format 'l', not 'i'"));
	schema.release(&schema);
}

TEST(sliced_and_null_rows_are_refused)
{
	struct batch *batch = lost_gap(5, true);
	struct lost_columns back;
	struct ArrowArray array;
	struct error err;
	size_t nr;

	check(!batch_export(batch, &array, NULL));
	array.offset = 1;
	check(table_borrow(&lost_table, &array, &back, &nr, &err) == -EINVAL);
	array.offset = 0;
	array.length = -1;
	check(table_borrow(&lost_table, &array, &back, &nr, &err) == -EINVAL);
	check(!strcmp(err.msg, "a batch of lost has -1 rows"));
	array.length = 1;
	array.children[0]->null_count = 1;
	check(table_borrow(&lost_table, &array, &back, &nr, &err) == -EINVAL);
	check(!strcmp(err.msg, "column lost.cpu has nulls"));
	array.release(&array);
	batch_free(batch);
}

TEST(enums_are_dictionaries_of_their_labels)
{
	struct ArrowArray array;
	const int32_t *offsets;
	struct batch *batch;
	const char *text;

	check(!batch_new(&batch, &event_table, 64, NULL));
	check(!batch_export(batch, &array, NULL));
	check(array.children[3]->dictionary->length == NR_EVENT_KIND);
	offsets = array.children[3]->dictionary->buffers[1];
	text = array.children[3]->dictionary->buffers[2];
	check(offsets[EVENT_KIND_FREE + 1] - offsets[EVENT_KIND_FREE] == 4);
	check(!strncmp(text + offsets[EVENT_KIND_FREE], "free", 4));
	array.release(&array);
	batch_free(batch);
}

TEST(labels_in_another_order_are_refused)
{
	struct event_columns back;
	struct ArrowArray array;
	struct batch *batch;
	struct error err;
	char text[256] = {0};
	size_t nr;

	check(!batch_new(&batch, &event_table, 64, NULL));
	batch->nr = 1;
	check(!batch_export(batch, &array, NULL));
	check(!table_borrow(&event_table, &array, &back, &nr, &err));
	strncpy(text, event_table.columns[3].labels->text, sizeof(text) - 1);
	text[0] ^= 1;
	array.children[3]->dictionary->buffers[2] = text;
	check(table_borrow(&event_table, &array, &back, &nr, &err) == -EINVAL);
	check(!strcmp(err.msg, "column event.kind has other labels"));
	array.children[3]->dictionary->buffers[2] = event_table.columns[3].labels->text;
	array.children[3]->dictionary->length--;
	check(table_borrow(&event_table, &array, &back, &nr, &err) == -EINVAL);
	array.release(&array);
	batch_free(batch);
}
