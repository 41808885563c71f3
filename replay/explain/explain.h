/* SPDX-License-Identifier: Apache-2.0 */
/* explain.h - the events before a decision and the state around it, as lines of text. */
#pragma once

#include "model/model.h"

struct explanation {
	char text[8192]; /* text that does not fit is left out */
};

__attribute__((format(printf, 2, 3))) void explain_print(struct explanation *explanation,
							 const char *format, ...);

/* The arguments of "%.*s" for a label. */
#define LABEL(labels, i)                                                                           \
	(int)((labels)->offsets[(i) + 1] - (labels)->offsets[i]),                                  \
		(labels)->text + (labels)->offsets[i]

/* The part of the state that a request of a CPU meets in a zone. */
struct scene {
	const struct zone *zone;
	int cpu, order, migratetype;
};

/* Print the zone, the CPU's PCP and its list, and the smallest free block that could serve. */
void explain_print_state(struct explanation *explanation, const struct model *m,
			 const struct scene *scene);
