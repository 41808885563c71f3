/* SPDX-License-Identifier: Apache-2.0 */
/*
 * story.h - what led to a decision, and the state around it, as lines of text.
 */
#pragma once

#include "model.h"

struct story {
	char text[8192]; /* what does not fit is left out */
};

__attribute__((format(printf, 2, 3))) void story_tell(struct story *story, const char *format, ...);

/* The arguments of "%.*s" for a label. */
#define LABEL(labels, i)                                                                           \
	(int)((labels)->offsets[(i) + 1] - (labels)->offsets[i]),                                  \
		(labels)->text + (labels)->offsets[i]

/* What of the state a request of a CPU meets in a zone. */
struct scene {
	const struct zone *zone;
	int cpu, order, migratetype;
};

/* The zone, the CPU's PCP and its list, and the smallest free block that could serve it. */
void story_tell_state(struct story *story, const struct model *m, const struct scene *scene);
