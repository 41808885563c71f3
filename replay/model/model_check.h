/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_check.h - the invariants of model.h, verified.
 */
#pragma once

#include "model.h"

/*
 * NULL, or the broken invariant as "name: description". Visits every frame, which is slow: for
 * tests and for validate with checks.
 */
const char *model_check(const struct model *m);
