// SPDX-License-Identifier: Apache-2.0
#include "policy_stack.h"

#include "zonelist.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_name(const char *known, const char *name, size_t length)
{
	return strlen(known) == length && !strncmp(known, name, length);
}

static const struct policy_ops *find_policy(const struct policy_stack *stack, const char *name,
					    size_t length)
{
	for (const struct policy_ops *const *ops = stack->known; *ops; ops++)
		if (is_name((*ops)->name, name, length))
			return *ops;
	for (int i = 0; i < stack->nr_libs; i++)
		if (is_name(stack->libs[i].ops->name, name, length))
			return stack->libs[i].ops;
	return NULL;
}

int policy_stack_open(struct policy_stack *stack, const char *path, struct error *err)
{
	struct policy_lib lib;
	int ret;

	if (stack->nr_libs == POLICY_STACK_MAX)
		return fail(err, E2BIG, "%s: at most %d policy libraries in a run", path,
			    POLICY_STACK_MAX);
	ret = policy_lib_open(&lib, path, err);
	if (ret)
		return ret;
	if (find_policy(stack, lib.ops->name, strlen(lib.ops->name))) {
		ret = fail(err, EEXIST, "%s: there is a policy named '%s' already", path,
			   lib.ops->name);
		policy_lib_close(&lib);
		return ret;
	}
	stack->libs[stack->nr_libs++] = lib;
	return 0;
}

/* A value by its name, for enums. */
static int named_value(int64_t *out, const char *policy, const struct policy_param *param,
		       const char *value, struct error *err)
{
	char names[512] = "";
	size_t used = 0;

	for (int i = 0; param->values[i]; i++) {
		if (!strcmp(param->values[i], value)) {
			*out = i;
			return 0;
		}
	}
	for (int i = 0; param->values[i] && used < sizeof(names); i++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, i ? ", %s" : "%s",
					 param->values[i]);
	return fail(err, EINVAL, "%s:%s: '%s' is not one of %s", policy, param->name, value, names);
}

static int no_param(const struct policy_ops *ops, const char *key, struct error *err)
{
	char names[512] = "";
	size_t used = 0;

	for (const struct policy_param *param = ops->params; param && param->name; param++)
		if (used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s",
						 used ? ", " : "; it has ", param->name);
	return fail(err, EINVAL, "policy %s has no parameter '%s'%s", ops->name, key, names);
}

static int set_param(struct policy *p, const char *key, const char *value, struct error *err)
{
	const struct policy_param *param = p->ops->params;
	int64_t number = 0;
	char *end;

	while (param && param->name && strcmp(param->name, key))
		param++;
	if (!param || !param->name)
		return no_param(p->ops, key, err);
	if (param->values) {
		int ret = named_value(&number, p->ops->name, param, value, err);

		if (ret)
			return ret;
	} else {
		errno = 0;
		number = strtoll(value, &end, 10);
		if (errno || end == value || *end)
			return fail(err, EINVAL, "%s:%s: '%s' is not a number", p->ops->name, key,
				    value);
		if (number < param->min || number > param->max)
			return fail(err, ERANGE, "%s:%s: %lld is not in %lld..%lld", p->ops->name,
				    key, (long long)number, (long long)param->min,
				    (long long)param->max);
	}
	*(int64_t *)((char *)p->state + param->offset) = number;
	return 0;
}

static void policy_free(struct policy *p)
{
	if (p) {
		free(p->state);
		free(p->spec);
	}
	free(p);
}

/* The parameters of "name" or "name:key=value,key=value". */
static int set_params(struct policy *p, const char *spec, struct error *err)
{
	char *copy, *rest, *pair, *value;
	int ret = 0;

	spec += strcspn(spec, ":");
	if (!*spec)
		return 0;
	rest = copy = strdup(spec + 1);
	if (!copy)
		return fail(err, ENOMEM, "no memory for policy %s", p->ops->name);
	while (!ret && (pair = strsep(&rest, ","))) {
		value = strchr(pair, '=');
		if (value) {
			*value++ = '\0';
			ret = set_param(p, pair, value, err);
		} else {
			ret = fail(err, EINVAL, "%s: expected key=value, got '%s'", p->ops->name,
				   pair);
		}
	}
	free(copy);
	return ret;
}

static int policy_new(struct policy **out, const struct policy_ops *ops, const char *spec,
		      struct error *err)
{
	struct policy *p = calloc(1, sizeof(*p));
	int ret;

	*out = NULL;
	if (!p || !(p->state = calloc(1, ops->state_size + 1)) || !(p->spec = strdup(spec))) {
		policy_free(p);
		return fail(err, ENOMEM, "no memory for policy %s", ops->name);
	}
	p->ops = ops;
	for (const struct policy_param *param = ops->params; param && param->name; param++)
		*(int64_t *)((char *)p->state + param->offset) = param->initial;
	ret = set_params(p, spec, err);
	if (ret) {
		policy_free(p);
		return ret;
	}
	*out = p;
	return 0;
}

static int take_choices(struct policy_stack *stack, struct policy *p, struct error *err)
{
	struct policy *mainline = stack->all[0];

	if (stack->nr == POLICY_STACK_MAX)
		return fail(err, E2BIG, "at most %d policies in a run", POLICY_STACK_MAX - 1);

#define REFUSE_IF_TAKEN(choice)                                                                    \
	if (p->ops->choice && stack->owner.choice != mainline)                                     \
		return fail(err, EBUSY, "%s and %s both decide '" #choice "'",                     \
			    stack->owner.choice->ops->name, p->ops->name);
	FOR_EACH_CHOICE(REFUSE_IF_TAKEN)
#undef REFUSE_IF_TAKEN

#define TAKE(choice)                                                                               \
	if (p->ops->choice)                                                                        \
		stack->owner.choice = p;
	FOR_EACH_CHOICE(TAKE)
#undef TAKE

	stack->all[stack->nr++] = p;
	return 0;
}

int policy_stack_add(struct policy_stack *stack, const char *spec, struct error *err)
{
	size_t length = strcspn(spec, ":");
	const struct policy_ops *ops = find_policy(stack, spec, length);
	struct policy *p;
	int ret;

	if (!ops)
		return fail(err, ENOENT, "no policy named '%.*s'", (int)length, spec);
	if (ops == stack->known[0])
		return set_params(stack->all[0], spec, err);
	ret = policy_new(&p, ops, spec, err);
	if (ret)
		return ret;
	p->mainline = stack->all[0];
	ret = take_choices(stack, p, err);
	if (ret)
		policy_free(p);
	return ret;
}

int policy_stack_check_zone(const struct policy_stack *stack, struct error *err)
{
	const struct policy *mainline = stack->all[0];

#define REFUSE(choice)                                                                             \
	if (stack->owner.choice != mainline)                                                       \
		return fail(err, EINVAL,                                                           \
			    "policy %s acts on what the per-CPU lists serve, which a tape of the " \
			    "event set zone does not have: record with --events page",             \
			    stack->owner.choice->ops->name);
	FOR_EACH_LIST_CHOICE(REFUSE)
#undef REFUSE
	return 0;
}

int policy_stack_new(struct policy_stack **out, const struct policy_ops *const *known,
		     struct error *err)
{
	struct policy_stack *stack = calloc(1, sizeof(*stack));
	struct policy *mainline;
	int ret;

	*out = NULL;
	if (!stack)
		return fail(err, ENOMEM, "no memory for policies");
	ret = policy_new(&mainline, known[0], known[0]->name, err);
	if (ret) {
		free(stack);
		return ret;
	}
	mainline->mainline = mainline;
	stack->known = known;
	stack->all[stack->nr++] = mainline;
	ret = policy_stack_record(stack, known[0]->name, err);
	if (ret) {
		policy_stack_free(stack);
		return ret;
	}
#define TAKE(choice) stack->owner.choice = mainline;
	FOR_EACH_CHOICE(TAKE)
#undef TAKE
	*out = stack;
	return 0;
}

void policy_stack_free(struct policy_stack *stack)
{
	if (!stack)
		return;
	for (int i = 0; i < stack->nr; i++)
		policy_free(stack->all[i]);
	for (int i = 0; i < stack->nr_libs; i++)
		policy_lib_close(&stack->libs[i]);
	free(stack->recorded);
	free(stack);
}

static int64_t param_value(const struct policy *p, const struct policy_param *param)
{
	return *(const int64_t *)((const char *)p->state + param->offset);
}

static size_t nr_params(const struct policy_ops *ops)
{
	size_t n = 0;

	while (ops->params && ops->params[n].name)
		n++;
	return n;
}

int policy_stack_record(struct policy_stack *stack, const char *spec, struct error *err)
{
	const struct policy *mainline = stack->all[0];
	size_t nr = nr_params(mainline->ops);
	int ret = policy_stack_add(stack, spec, err);

	if (ret)
		return ret;
	if (!stack->recorded)
		stack->recorded = calloc(nr + 1, sizeof(*stack->recorded));
	if (!stack->recorded)
		return fail(err, ENOMEM, "no memory for the parameters of mainline");
	for (size_t i = 0; i < nr; i++)
		stack->recorded[i] = param_value(mainline, &mainline->ops->params[i]);
	return 0;
}

static bool owns_reclaim_choice(const struct policy_ops *ops)
{
#define OR_OWNS(choice) || ops->choice
	return false FOR_EACH_RECLAIM_CHOICE(OR_OWNS);
#undef OR_OWNS
}

bool policy_stack_feedback(const struct policy_stack *stack, int n, const struct kernel *row)
{
	const struct policy *p = stack->all[n];

	if (n == 0) {
		for (size_t i = 0; i < nr_params(p->ops); i++)
			if (param_value(p, &p->ops->params[i]) != stack->recorded[i])
				return true;
		return false;
	}
	if (p->ops->feedback)
		return p->ops->feedback(p, row);
	return *p->ops->tier == 'B' || owns_reclaim_choice(p->ops);
}

void policy_stack_edit(struct policy_stack *stack, struct kernel *row)
{
	struct policy *owner = stack->owner.alloc_batch;
	struct alloc_batch batch;
	struct kernel before;

#define EDIT(choice) stack->owner.choice->ops->choice(stack->owner.choice, row);
	EDIT(fallback_family)
	before = *row;
	EDIT(pcp_tuning)
	owner->ops->alloc_batch(owner, &batch);
	if (batch.scales_refills && row->refill_scaling == REFILL_ORDER_0)
		row->refill_scaling = REFILL_ALL;
	if (batch.keeps_frees)
		row->free_high = FREE_HIGH_NONE;
	stack->changes_pcps = !kernel_rules_same(&before, row);
	EDIT(reserve)
	EDIT(kswapd_rules)
	EDIT(kswapd_blocks)
#undef EDIT
}

struct zone_reclaim policy_stack_zone_reclaim(const struct policy_stack *stack)
{
	struct policy *owner = stack->owner.zone_reclaim;
	struct zone_reclaim reclaim = {0};

	owner->ops->zone_reclaim(owner, &reclaim);
	return reclaim;
}

void policy_stack_join(struct policy_stack *stack, struct model *m)
{
	struct policy *owner = stack->owner.zonelist_order;

	m->policies = stack;
	if (owner->ops->zonelist_order(owner, m) == ZONELIST_ZONE)
		zonelists_by_zone(m);
	m->zone_reclaim = policy_stack_zone_reclaim(stack);
	owner = stack->owner.proactiveness;
	m->proactiveness = owner->ops->proactiveness(owner);
}

void policy_stack_limit_pcp(struct policy_stack *stack, const struct model *m, struct pcp *pcp)
{
	struct policy *owner = stack->owner.pcp_limits;

	owner->ops->pcp_limits(owner, m, &m->zones[pcp->zone], pcp);
}

void policy_stack_limit_pcps(struct policy_stack *stack, const struct model *m)
{
	for (int i = 0; i < m->nr_zones * m->nr_cpus; i++) {
		const struct pcp before = m->pcps[i];

		policy_stack_limit_pcp(stack, m, &m->pcps[i]);
		stack->nr_resized_pcps += !pcp_limits_same(&before, &m->pcps[i]);
	}
	stack->changes_pcps |= stack->nr_resized_pcps > 0;
}

const char *policy_stack_effect(const struct policy_stack *stack, int n, const struct model *m,
				const struct counters *total, struct policy_effect *effect)
{
	struct policy *p = n < stack->nr ? stack->all[n] : NULL;

	*effect = (struct policy_effect){.changed = EFFECT_UNKNOWN};
	if (!p)
		return NULL;
	if (p->ops->effect)
		p->ops->effect(p, m, total, effect);
	return p->spec;
}

#define NTH(hook)                                                                                  \
	if (ops->hook && n-- == 0)                                                                 \
		return #hook;

const char *policy_choice(const struct policy_ops *ops, int n)
{
	FOR_EACH_CHOICE(NTH)
	return NULL;
}

const char *policy_notice(const struct policy_ops *ops, int n)
{
	FOR_EACH_NOTICE(NTH)
	return NULL;
}
