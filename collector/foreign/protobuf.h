/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf.h - the wire format of protobuf: the fields of one message, one after the other.
 *
 * https://protobuf.dev/programming-guides/encoding/. Perfetto's traces need no more of protobuf
 * than this: fields differ by number, and a message of millions of events is never built.
 */
#pragma once

#include "span.h"

struct pb_field {
	uint32_t number;
	bool is_bytes;     /* a message, a string, or bytes */
	uint64_t value;    /* of a number */
	struct span bytes; /* else */
};

static inline uint64_t pb_varint(struct span *s)
{
	uint64_t value = 0;

	for (int shift = 0; shift < 64 && s->at < s->end; shift += 7) {
		uint8_t byte = *s->at++;

		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return value;
	}
	s->bad = true;
	return 0;
}

/* The next field of the message; false at its end, or at damage (s->bad). */
static inline bool pb_next(struct span *s, struct pb_field *field)
{
	uint64_t tag;

	*field = (struct pb_field){0};
	if (s->at == s->end)
		return false;
	tag = pb_varint(s);
	field->number = (uint32_t)(tag >> 3);
	switch (tag & 7) {
	case 0:
		field->value = pb_varint(s);
		break;
	case 1:
		field->value = span_number(s, 8);
		break;
	case 2:
		field->is_bytes = true;
		field->bytes = span_take(s, pb_varint(s));
		break;
	case 5:
		field->value = span_number(s, 4);
		break;
	default:
		s->bad = true;
	}
	return !s->bad;
}

/* The last field of this number in a message, if it is bytes; else, or without one, an empty span.
 */
static inline struct span pb_bytes(struct span message, uint32_t number)
{
	struct span found = {0};
	struct pb_field field;

	while (pb_next(&message, &field))
		if (field.number == number && field.is_bytes)
			found = field.bytes;
	return found;
}

/* The same of a number; else 0. */
static inline uint64_t pb_value(struct span message, uint32_t number)
{
	struct pb_field field;
	uint64_t found = 0;

	while (pb_next(&message, &field))
		if (field.number == number && !field.is_bytes)
			found = field.value;
	return found;
}
