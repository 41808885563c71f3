// SPDX-License-Identifier: Apache-2.0
#include "text_line.h"

enum {
	NS_DIGITS = 9,
	MOST_CPU_DIGITS = 5,
	MOST_FLAGS = 8, /* columns of flags of the longest known layout */
};

static bool is_name(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       c == '-' || c == '.';
}

static const char *trim(const char *begin, const char *end)
{
	while (end > begin && is_space(end[-1]))
		end--;
	return end;
}

bool text_decimal(const char **text, const char *end, uint64_t *value)
{
	const char *at = *text;
	uint64_t found = 0;

	for (; at < end && is_digit(*at); at++)
		if (__builtin_mul_overflow(found, 10, &found) ||
		    __builtin_add_overflow(found, (uint64_t)(*at - '0'), &found))
			return false;
	if (at == *text)
		return false;
	*text = at;
	*value = found;
	return true;
}

/*
 * "35440.484803:", "42us+:", "42us :", or the number of a clock that counts no time, "4711:".
 * `mark` stands behind it.
 */
static bool read_marked(struct text_line *line, const char **text, const char *end, char mark)
{
	const char *at = *text;
	uint64_t value, part;

	if (!text_decimal(&at, end, &value) || at == end)
		return false;
	line->in_time = true;
	if (*at == '.') {
		const char *digits = ++at;

		if (!text_decimal(&at, end, &part) || at - digits > NS_DIGITS)
			return false;
		for (int nr = (int)(at - digits); nr < NS_DIGITS; nr++)
			part *= 10;
		if (__builtin_mul_overflow(value, 1000000000ull, &value) ||
		    __builtin_add_overflow(value, part, &value))
			return false;
	} else if (end - at > 2 && at[0] == 'u' && at[1] == 's') {
		if (__builtin_mul_overflow(value, 1000ull, &value))
			return false;
		at += 2;
		at += *at != ':'; /* the mark of a long delay, or a space */
	} else {
		line->in_time = false;
	}
	if (at == end || *at != mark)
		return false;
	line->ts = value;
	*text = at + 1;
	return true;
}

static bool read_time(struct text_line *line, const char **text, const char *end)
{
	return read_marked(line, text, end, ':');
}

static uint8_t hex_digit(char c)
{
	if (is_digit(c))
		return (uint8_t)(c - '0');
	return c >= 'a' && c <= 'f' ? (uint8_t)(c - 'a' + 10) : 0;
}

/* The columns that trace_print_lat_fmt() of the kernel prints: "d.h2.". */
static bool read_flags(struct text_line *line, const char *at, const char *end)
{
	static const char known[] = ".dDbXNnpBLGlgHhsZz0123456789abcdefx#!+*@$";
	static const struct {
		char letter;
		uint8_t flags;
	} letters[3][10] = {
		{{'d', 0x01}, {'D', 0x81}, {'b', 0x80}},
		{{'N', 0x04}, {'n', 0x04}, {'B', 0x04}, {'L', 0x04}},
		{{'h', 0x08}, {'s', 0x10}, {'H', 0x18}, {'z', 0x40}, {'Z', 0x48}},
	};

	if (end - at < 3 || end - at > MOST_FLAGS)
		return false;
	for (const char *c = at; c < end; c++)
		if (!memchr(known, *c, sizeof(known) - 1))
			return false;
	for (int column = 0; column < 3; column++)
		for (int i = 0; letters[column][i].letter; i++)
			if (letters[column][i].letter == at[column])
				line->flags |= letters[column][i].flags;
	if (end - at > 3)
		line->preempt_count = hex_digit(at[3]);
	if (end - at > 4)
		line->preempt_count |= (uint8_t)(hex_digit(at[4]) << 4);
	return true;
}

/* The begin of the digits at the end of a text; its end if there are none. */
static const char *last_digits(const char *begin, const char *end)
{
	while (end > begin && is_digit(end[-1]))
		end--;
	return end;
}

/*
 * "-pid", " pid" or " pid/tid" at the end of a task: the thread. perf script prints " -1" for one
 * that has ended (perf_event_tid). Returns the end of what is left.
 */
static const char *read_pid(struct text_line *line, const char *begin, const char *end)
{
	const char *digits = last_digits(begin, end), *at = digits;
	bool ended = end - digits == 1 && *digits == '1' && digits - begin > 1 &&
		     digits[-1] == '-' && strchr(" \t/", digits[-2]);
	uint64_t pid;

	if (digits == end || (digits > begin && !strchr("- \t/", digits[-1])))
		return end;
	if (text_decimal(&at, end, &pid) && pid <= INT32_MAX)
		line->pid = ended ? -1 : (int64_t)pid;
	line->of_perf = digits == begin || digits[-1] != '-' || ended;
	digits -= ended;
	if (digits > begin && digits[-1] == '/')
		digits = last_digits(begin, digits - 1);
	else if (digits > begin && digits[-1] == '-')
		digits--;
	return trim(begin, digits);
}

/* "comm-pid" of ftrace, "comm pid" and "comm pid/tid" of perf script; any may be missing. */
static void read_task(struct text_line *line, const char *begin, const char *end)
{
	const char *colon;

	end = trim(begin, end);
	if (begin && end > begin && end[-1] == ')') { /* "(  24665)", the process */
		const char *open = memrchr(begin, '(', (size_t)(end - begin));

		end = open ? trim(begin, open) : end;
	}
	end = read_pid(line, begin, end);
	begin = skip_spaces(begin, end);
	/* trace-cmd report prints the instance before the line, and spaces behind it. */
	colon = memchr(begin, ':', (size_t)(end - begin));
	if (!line->of_perf && colon && end - colon > 2 && is_space(colon[1]))
		begin = skip_spaces(colon + 1, end);
	line->comm = words_between(begin, end);
}

/* The "[001]" of a line: the first one between a pid and a space. */
static const char *find_cpu(struct text_line *line, const char *text, const char *end)
{
	for (const char *open = text; (open = memchr(open, '[', (size_t)(end - open))); open++) {
		const char *at = open + 1;
		uint64_t cpu;

		if ((open > text && !is_space(open[-1])) || !text_decimal(&at, end, &cpu) ||
		    at == end || *at != ']' || at - open > MOST_CPU_DIGITS + 1)
			continue;
		if (at + 1 < end && !is_space(at[1]))
			continue;
		line->cpu = (int64_t)cpu;
		read_task(line, text, open);
		return skip_spaces(at + 1, end);
	}
	return NULL;
}

/* Behind "[001]": flags, where the layout has them, and the time. */
static const char *after_cpu(struct text_line *line, const char *at, const char *end)
{
	const char *word = skip_word(at, end);

	if (read_time(line, &at, end))
		return at;
	if (!read_flags(line, at, word))
		return NULL;
	at = skip_spaces(word, end);
	return read_time(line, &at, end) ? at : NULL;
}

/*
 * A line without "[001]": "comm-pid  0d..1. 42us: " of the latency format, or "comm pid 576.912056:
 * " of a perf script without CPUs.
 */
static const char *without_cpu(struct text_line *line, const char *text, const char *end)
{
	const char *last = NULL; /* the word before the time */
	const char *at, *word;
	uint64_t cpu;

	for (at = text; at < end; at = skip_spaces(skip_word(at, end), end)) {
		const char *time = at;

		if (is_digit(*at) && read_time(line, &time, end) && line->in_time &&
		    (time == end || is_space(*time)))
			break;
		last = at;
	}
	if (at >= end)
		return NULL;
	word = last ? skip_word(last, end) : NULL;
	if (last && word - last > 3 && is_digit(*last)) {
		const char *flags = last;

		if (text_decimal(&flags, word, &cpu) && read_flags(line, flags, word)) {
			line->cpu = cpu <= INT32_MAX ? (int64_t)cpu : -1;
			read_task(line, text, last);
			read_time(line, &at, end);
			return at;
		}
	}
	read_task(line, text, at);
	line->of_perf = true;
	read_time(line, &at, end);
	return at;
}

/* "CPU:1 [LOST 123 EVENTS]", "CPU:0 [109824 EVENTS DROPPED]" and "CPU:0 [EVENTS DROPPED]". */
static bool read_lost(struct text_line *line, const char *text, const char *end)
{
	const char *at = memmem(text, (size_t)(end - text), "CPU:", 4);
	uint64_t cpu;

	if (!at || (at > text && !is_space(at[-1])))
		return false;
	at += 4;
	if (!text_decimal(&at, end, &cpu) || cpu > INT32_MAX || end - at < 3 || at[0] != ' ' ||
	    at[1] != '[')
		return false;
	at += 2;
	if (end - at > 5 && !memcmp(at, "LOST ", 5))
		at += 5;
	line->lost = LINE_UNKNOWN;
	if (at < end && is_digit(*at) && !text_decimal(&at, end, &line->lost))
		line->lost = LINE_UNKNOWN;
	at = skip_spaces(at, end);
	if (end - at < 7 || memcmp(at, "EVENTS", 6))
		return false;
	line->kind = LINE_LOST;
	line->cpu = (int64_t)cpu;
	return true;
}

/* Behind the time: "mm_page_free: page=...", "     1 kmem:mm_page_free: page=...". */
static bool read_event(struct text_line *line, const char *at, const char *end)
{
	const char *name = at = skip_spaces(at, end);

	if (end - at > 2 && !memcmp(at, "(+", 2)) /* trace-cmd's --ts-diff */
		name = at = skip_spaces(skip_word(at, end), end);
	while (at < end && is_digit(*at))
		at++;
	if (at > name && at < end && is_space(*at)) /* the period of a sample */
		name = at = skip_spaces(at, end);
	else
		at = name;
	while (at < end && is_name(*at))
		at++;
	if (at == name || at == end || *at != ':')
		return false;
	line->event = words_between(name, at);
	name = ++at;
	while (at < end && is_name(*at))
		at++;
	if (at > name && at < end && *at == ':') {
		line->system = line->event;
		line->event = words_between(name, at);
		line->of_perf = true;
		name = at + 1;
	}
	name = skip_spaces(name, end);
	line->fields = words_between(name, end);
	return true;
}

/* "<stack trace>", or trace-cmd's "kernel_stack:". */
static bool is_stack(struct words rest)
{
	return words_begin(rest, "<stack trace") || words_begin(rest, "kernel_stack:");
}

/* Behind the stamp of a console or a terminal: "[ 5001.123456] ", "[2024-01-05 10:00:00.123] ". */
static const char *after_stamp(const char *text, const char *end)
{
	const char *at = skip_spaces(text, end);
	bool is_stamp = false;

	if (at == end || *at++ != '[')
		return text;
	for (; at < end && memchr("0123456789 .:-", *at, 14); at++)
		is_stamp |= *at == '.' || *at == ':';
	return is_stamp && end - at > 1 && at[0] == ']' && is_space(at[1]) ? at + 2 : text;
}

/*
 * An event in function_graph's output, if its option funcgraph-abstime is set:
 * " 4711.105144 |   1)  cc1-5972  |      |  / * mm_page_free: page=... * /" (here with spaces).
 */
static const char *in_graph(struct text_line *line, const char *text, const char **end)
{
	const char *at = skip_spaces(text, *end), *stop = trim(text, *end), *bar;
	const char *event = memmem(text, (size_t)(stop - text), "/* ", 3);
	uint64_t cpu;

	if (!event || stop - event < 6 || memcmp(stop - 2, "*/", 2) ||
	    !read_marked(line, &at, event, ' '))
		return NULL;
	at = skip_spaces(skip_word(skip_spaces(at, event), event), event); /* "|" */
	if (!text_decimal(&at, event, &cpu) || cpu > INT32_MAX || *at != ')')
		return NULL;
	line->cpu = (int64_t)cpu;
	bar = memchr(at, '|', (size_t)(event - at));
	if (bar && memchr(at, '-', (size_t)(bar - at)))
		read_task(line, at + 1, bar);
	*end = trim(text, stop - 2);
	return event + 3;
}

void text_line_read(struct text_line *line, const char *text, const char *end)
{
	const char *at;

	*line = (struct text_line){.kind = LINE_COMMENT, .cpu = -1, .pid = NO_PID};
	if (end > text && end[-1] == '\r')
		end--;
	if (text == end || *text == '#')
		return;
	text = after_stamp(text, end);
	at = in_graph(line, text, &end);
	if (at) {
		line->kind = read_event(line, at, end) ? LINE_EVENT : LINE_BROKEN;
		return;
	}
	at = find_cpu(line, text, end);
	if (at) {
		at = after_cpu(line, at, end);
	} else {
		if (read_lost(line, text, end))
			return;
		at = without_cpu(line, text, end);
	}
	if (!at)
		return;
	if (is_stack(words_between(skip_spaces(at, end), end)))
		line->kind = LINE_STACK;
	else
		line->kind = read_event(line, at, end) ? LINE_EVENT : LINE_BROKEN;
}
