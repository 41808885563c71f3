/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policies.h - the table of all policies in the tree. The list is in meson.build, which makes
 * policy_list.h of it.
 */
#pragma once

#include "model/policy.h"

/* Mainline first; ends with NULL. */
extern const struct policy_ops *const policies[];
