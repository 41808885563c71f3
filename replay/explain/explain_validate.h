/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain_validate.h - the first miss of validate in words.
 */
#pragma once

#include "explain.h"
#include "state_trace.h"
#include "predict/validate.h"

struct validate_explanation {
	struct explanation miss;   /* events before the first miss, and the state around it */
	struct state_trace *trace; /* also gets the event of its row; or NULL */
};

/* The observer that fills the explanation. */
struct validate_observer validate_explanation_observer(struct validate_explanation *e);
