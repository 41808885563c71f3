/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_stack.h - the policies of a run, and the owner of each choice.
 */
#pragma once

#include "policy_lib.h"

/* Every choice and notice of policy_ops, once. A new one is one new line here. */
#define FOR_EACH_CHOICE(X)                                                                         \
	X(fallback_family)                                                                         \
	X(pcp_tuning)                                                                              \
	X(reserve)                                                                                 \
	X(kswapd_rules)                                                                            \
	X(kswapd_blocks)                                                                           \
	X(watermarks)                                                                              \
	X(layout)                                                                                  \
	X(zonelist_order)                                                                          \
	X(reserve_blocks)                                                                          \
	X(pcp_limits)                                                                              \
	X(tick_ns)                                                                                 \
	X(alloc_batch)                                                                             \
	X(huge_plan)                                                                               \
	X(zone_reclaim)                                                                            \
	X(proactiveness)                                                                           \
	X(lock_costs)                                                                              \
	X(nofragment)                                                                              \
	X(fallback_type)                                                                           \
	X(claim)                                                                                   \
	X(watermark_boost)                                                                         \
	X(refuse_fallback)
/*
 * The choices that kswapd, kcompactd, direct reclaim or the requests that wait for them read. The
 * effect of their owner reaches the free memory through reclaim or compaction.
 */
#define FOR_EACH_RECLAIM_CHOICE(X)                                                                 \
	X(kswapd_rules)                                                                            \
	X(kswapd_blocks)                                                                           \
	X(watermarks)                                                                              \
	X(huge_plan)                                                                               \
	X(zone_reclaim)                                                                            \
	X(proactiveness)                                                                           \
	X(nofragment)                                                                              \
	X(watermark_boost)                                                                         \
	X(refuse_fallback)
/* The choices about PCPs, and about single requests. */
#define FOR_EACH_LIST_CHOICE(X)                                                                    \
	X(pcp_tuning)                                                                              \
	X(pcp_limits)                                                                              \
	X(tick_ns)                                                                                 \
	X(alloc_batch)                                                                             \
	X(huge_plan)
#define FOR_EACH_NOTICE(X)                                                                         \
	X(on_fallback)                                                                             \
	X(on_unmixed)

enum { POLICY_STACK_MAX = 16 };

struct policy_stack {
	const struct policy_ops *const *known; /* policies that specs may name; ends with NULL */
	struct policy *all[POLICY_STACK_MAX];  /* all[0] is mainline */
	int nr;
	struct policy_lib libs[POLICY_STACK_MAX]; /* specs may name their policies as well */
	int nr_libs;
	struct {
#define OWNER(choice) struct policy *choice;
		FOR_EACH_CHOICE(OWNER)
#undef OWNER
	} owner;           /* never NULL */
	int64_t *recorded; /* values of mainline's parameters on the recording */
	/*
	 * A policy changed how PCPs are tuned, or the size of one: the recorded tuning does not
	 * apply to them.
	 */
	bool changes_pcps;
	int nr_resized_pcps; /* at the start */
};

#define for_each_policy(stack, p)                                                                  \
	for (int p##_i = 0; p##_i < (stack)->nr && ((p) = (stack)->all[p##_i]); p##_i++)

/*
 * A stack of mainline alone, which is known[0]. `known` ends with NULL and lists the policies
 * that specs may name. -ENOMEM.
 */
int policy_stack_new(struct policy_stack **out, const struct policy_ops *const *known,
		     struct error *err);
void policy_stack_free(struct policy_stack *stack);

/*
 * Add the policy of a shared object to the known ones. Errors of policy_lib_open(), -E2BIG, or
 * -EEXIST if the name is taken.
 */
int policy_stack_open(struct policy_stack *stack, const char *path, struct error *err);

/*
 * Add the policy of `spec`: "name" or "name:key=value,key=value". -ENOENT, -EINVAL or -ERANGE for a
 * bad spec, -EBUSY if another policy owns one of its choices. "mainline" is always present and only
 * gets its parameters.
 */
int policy_stack_add(struct policy_stack *stack, const char *spec, struct error *err);

/*
 * Check that no policy of the stack decides about PCPs or single requests, of which a tape of the
 * event set zone has no events. -EINVAL names the first that does.
 */
int policy_stack_check_zone(const struct policy_stack *stack, struct error *err);

/*
 * Set mainline's parameters to those of the recording, before any policy is added: "mainline" or
 * "mainline:key=value". Errors of policy_stack_add(), or -ENOMEM.
 */
int policy_stack_record(struct policy_stack *stack, const char *spec, struct error *err);

/*
 * Whether the n-th policy of the stack acts through reclaim or compaction in a run of that row
 * (tier B): mainline, which is the first, if a parameter differs from the recording's.
 */
bool policy_stack_feedback(const struct policy_stack *stack, int n, const struct kernel *row);

/*
 * The setup choices, in this order: edit the run's copy of its kernel row, attach to the new model,
 * limit the PCPs after the snapshot filled them. The builder of the model asks for watermarks and
 * layout itself, after the first of these.
 */
void policy_stack_edit(struct policy_stack *stack, struct kernel *row);
void policy_stack_join(struct policy_stack *stack, struct model *m);
void policy_stack_limit_pcps(struct policy_stack *stack, const struct model *m);
/* The reclaim of near nodes, as the stack sets it. */
struct zone_reclaim policy_stack_zone_reclaim(const struct policy_stack *stack);
/* Limit one PCP again, after the record gave it new sizes. */
void policy_stack_limit_pcp(struct policy_stack *stack, const struct model *m, struct pcp *pcp);

/*
 * The effect of the n-th policy of the stack, mainline first, after the last event. Returns its
 * spec, or NULL past the last policy. A policy that says nothing has an empty text.
 */
const char *policy_stack_effect(const struct policy_stack *stack, int n, const struct model *m,
				const struct counters *total, struct policy_effect *effect);

/* Name of the n-th choice that a policy owns, and of its n-th notice; NULL past the last. */
const char *policy_choice(const struct policy_ops *ops, int n);
const char *policy_notice(const struct policy_ops *ops, int n);
