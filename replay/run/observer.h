/* SPDX-License-Identifier: Apache-2.0 */
/* observer.h - hooks to look at the model while a run goes on. */
#pragma once

#include "model/model.h"

enum { OBSERVER_STOPS = 2 };

struct run_observer {
	void *self;
	/* Rows of `event`, ascending, before which `before` is called whatever they are. */
	uint64_t stops[OBSERVER_STOPS];
	/* The model is ready. 0, or -errno to end the run. */
	int (*start)(void *self, const struct model *m, struct error *err);
	/* The state before a row; `request`: it is an alloc or a free. */
	void (*before)(void *self, const struct model *m, uint64_t at, bool request);
	/* The state after the last row. */
	void (*end)(void *self, const struct model *m);
};
