/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unspool_checkpoint.h - an unspool's place in its spools, and its counts, as words.
 *
 * unspool_release and unspool_resume (unspool.h) read them.
 */
#pragma once

#include "unspool.h"

/* Hand a checkpoint to the source. All batches must have been handed over. -ENOMEM. */
int unspool_save(struct unspool *u, struct error *err);
