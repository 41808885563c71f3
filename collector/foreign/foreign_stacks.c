// SPDX-License-Identifier: Apache-2.0
#include "foreign_stacks.h"

#include "foreign_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	STACK_TYPE = UINT16_MAX, /* common_type; kernels number their events from 1 */
	HEAD = 16,               /* bytes before the addresses */
	MAX_NAMES = 1 << 16,
	SLOTS = 2 * MAX_NAMES,
};

/* Functions are smaller than the distance of two addresses: pagetape.recording.stacks. */
#define FIRST_ADDRESS 0xffff800000000000ull
#define DISTANCE      (1ull << 20)

struct stack_names {
	size_t nr;
	uint32_t slots[SLOTS];  /* open addressing: number + 1, or 0 */
	char *lines[MAX_NAMES]; /* "name" or "name\t[module]" */
};

/* "name", "name+0x12" or "name+0x12/0x30". */
static const char *read_function(struct text_frame *frame, const char *at, const char *end)
{
	const char *begin = at, *plus;

	at = skip_word(at, end);
	plus = memchr(begin, '+', (size_t)(at - begin));
	frame->name = words_between(begin, plus ?: at);
	if (plus && at - plus > 3 && plus[1] == '0' && plus[2] == 'x') {
		plus += 3;
		read_hex(&plus, at, &frame->offset);
	}
	if (words_are(frame->name, "[unknown]"))
		frame->name.length = 0;
	return skip_spaces(at, end);
}

/* "[module]" or "([module])"; that of the kernel itself is none. */
static void read_module(struct text_frame *frame, const char *at, const char *end)
{
	const char *close;

	at += at < end && *at == '(';
	close = at < end && *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL;
	if (close && !words_begin(words_between(at, close), "[kernel"))
		frame->module = words_between(at + 1, close);
}

bool text_frame_read(struct text_frame *frame, const char *at, const char *end)
{
	const char *begin = at;

	*frame = (struct text_frame){0};
	if (end > at && end[-1] == '\r')
		end--;
	at = skip_spaces(at, end);
	if (end - at > 3 && words_begin(words_between(at, end), "=> ")) {
		at = read_function(frame, skip_spaces(at + 3, end), end);
		if (!frame->name.length || *frame->name.text == '<')
			return false; /* of a program */
		read_module(frame, at, end);
		return true;
	}
	if (at == begin || !read_hex(&at, end, &frame->address) || at == end || !is_space(*at) ||
	    !(frame->address >> 63))
		return false;
	at = read_function(frame, skip_spaces(at, end), end);
	read_module(frame, at, end);
	return true;
}

void stack_names_free(struct stack_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->nr; i++)
		free(names->lines[i]);
	free(names);
}

static uint32_t *slot_of(struct stack_names *names, const char *line)
{
	uint32_t h = words_hash(words_of(line)) % SLOTS;

	for (; names->slots[h]; h = (h + 1) % SLOTS)
		if (!strcmp(names->lines[names->slots[h] - 1], line))
			break;
	return &names->slots[h];
}

uint64_t stack_names_address(struct stack_names **names, const struct text_frame *frame)
{
	char line[256];
	uint32_t *slot;

	if (!frame->name.length)
		return frame->address;
	if (!*names)
		*names = calloc(1, sizeof(**names));
	if (!*names)
		return 0;
	snprintf(line, sizeof(line), "%.*s%s%.*s%s", (int)frame->name.length, frame->name.text,
		 frame->module.length ? "\t[" : "", (int)frame->module.length,
		 frame->module.length ? frame->module.text : "", frame->module.length ? "]" : "");
	slot = slot_of(*names, line);
	if (!*slot) {
		if ((*names)->nr == MAX_NAMES || !((*names)->lines[(*names)->nr] = strdup(line)))
			return frame->address;
		*slot = (uint32_t)++(*names)->nr;
	}
	return FIRST_ADDRESS + (*slot - 1) * DISTANCE +
	       (frame->offset && frame->offset < DISTANCE ? frame->offset : 1);
}

char *stack_names_text(const struct stack_names *names)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	for (size_t i = 0; to && names && i < names->nr; i++)
		fprintf(to, "%llx t %s\n", (unsigned long long)(FIRST_ADDRESS + i * DISTANCE),
			names->lines[i]);
	if (to)
		fclose(to);
	return text;
}

int foreign_stack_format(struct foreign *f, struct error *err)
{
	char text[1024];

	if (!f->facts.has_stacks)
		return 0;
	snprintf(text, sizeof(text),
		 "name: kernel_stack\nID: %d\nformat:\n"
		 "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
		 "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
		 "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
		 "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
		 "\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n"
		 "\tfield:unsigned long caller[8];\toffset:%d;\tsize:64;\tsigned:0;\n\n"
		 "print fmt: \"%%d\", REC->size\n",
		 STACK_TYPE, HEAD);
	if (tep_parse_event(f->source.tep, text, strlen(text), "ftrace"))
		return fail(err, ENOMEM, "no memory for the format of stacks");
	return 0;
}

int foreign_add_stack(struct foreign *f, int cpu, uint64_t ts, const struct foreign_stack *stack,
		      struct error *err)
{
	struct {
		uint16_t type;
		uint8_t flags, preempt_count;
		int32_t pid, size, unused;
		uint64_t callers[FOREIGN_FRAMES];
	} record = {.type = STACK_TYPE, .pid = stack->pid, .size = stack->nr};

	if (!stack->nr)
		return 0;
	memcpy(record.callers, stack->frames, (size_t)stack->nr * sizeof(*stack->frames));
	return foreign_add(f, cpu, ts, &record, HEAD + 8 * stack->nr, err);
}
