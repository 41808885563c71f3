// SPDX-License-Identifier: Apache-2.0
#include "policies.h"

#include "policies/policy_list.h"

#define DECLARE(name) extern const struct policy_ops name##_policy;
FOR_EACH_POLICY(DECLARE)
#undef DECLARE

#define LIST(name) &name##_policy,
const struct policy_ops *const policies[] = {FOR_EACH_POLICY(LIST) NULL};
#undef LIST
