/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain_validate.h - the first miss of validate in words.
 */
#pragma once

#include "explain.h"
#include "state_trace.h"
#include "validate/validate.h"

struct validate_explanation {
	struct explanation miss;   /* what led to the first miss, the state around it */
	struct state_trace *trace; /* gets the event of its own row as well; or NULL */
};

/* The observer that fills the explanation. */
struct validate_observer validate_explanation_observer(struct validate_explanation *e);
