/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explanation.h - what led to a decision, and the state around it, as lines of text.
 */
#pragma once

#include "model/model.h"

struct explanation {
	char text[8192]; /* what does not fit is left out */
};

__attribute__((format(printf, 2, 3))) void explain_print(struct explanation *explanation,
							 const char *format, ...);

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
void explain_print_state(struct explanation *explanation, const struct model *m,
			 const struct scene *scene);
