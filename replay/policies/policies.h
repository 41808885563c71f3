/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policies.h - the table of all policies in the tree.
 */
#pragma once

#include "model/policy.h"

/* Mainline first; ends with NULL. */
extern const struct policy_ops *const policies[];
