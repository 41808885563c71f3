// SPDX-License-Identifier: Apache-2.0
#include "ring_stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ring_stats_read(int instance, int cpu, struct ring_stats *out)
{
	const struct {
		const char *label;
		uint64_t *value;
	} lines[] = {
		{"entries: ", &out->entries},
		{"overrun: ", &out->overrun},
		{"commit overrun: ", &out->commit_overrun},
		{"dropped events: ", &out->dropped},
		{"read events: ", &out->read},
	};
	char file[64], text[1024], *next;
	ssize_t size = -1;
	int fd, code = 0;

	snprintf(file, sizeof(file), "per_cpu/cpu%d/stats", cpu);
	fd = openat(instance, file, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		size = read(fd, text, sizeof(text) - 1);
	if (size < 0)
		code = errno;
	if (fd >= 0)
		close(fd);
	if (code)
		return -code;
	text[size] = '\0';
	*out = (struct ring_stats){0};
	for (char *line = text; line; line = next) {
		next = strchr(line, '\n');
		next = next ? next + 1 : NULL;
		for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
			if (!strncmp(line, lines[i].label, strlen(lines[i].label)))
				*lines[i].value = strtoull(line + strlen(lines[i].label), NULL, 10);
	}
	return 0;
}
