# The policies in Python, included by _replay.pyx; _replay.pyi documents them.

# Sysctls of a recording that the engine takes as keywords, with their defaults.
cdef dict SYSCTLS = {
    "watermark_boost_factor": 15000,
    "compaction_proactiveness": 20,
    "defrag_mode": 0,
    "zone_reclaim_mode": 0,
    "percpu_pagelist_high_fraction": 0,
    "numa_balancing": 0,
}


cdef list mainline_spec(dict given):
    """The SPEC that gives mainline the sysctls of the tape."""
    values = {
        "boost_factor": given["watermark_boost_factor"],
        "proactiveness": given["compaction_proactiveness"],
        "defrag_mode": given["defrag_mode"],
        "zone_reclaim_mode": given["zone_reclaim_mode"] & ZONE_RECLAIM_BITS,
    }
    words = ",".join(f"{name}={value}" for name, value in values.items())
    return [f"mainline:{words}".encode()]


cdef list policy_params(const policy_ops *ops):
    cdef list out = []
    cdef const policy_param *p = ops.params
    while p and p.name:
        values = strings(p.values)
        out.append(
            {
                "name": p.name.decode(),
                "min": p.min,
                "max": p.max,
                "default": values[p.initial] if values else p.initial,
                "values": values,
                "doc": p.doc.decode(),
            }
        )
        p += 1
    return out


cdef dict describe_policy(const policy_ops *ops, libs):
    choices, notices = [], []
    while policy_choice(ops, len(choices)):
        choices.append(policy_choice(ops, len(choices)).decode())
    while policy_notice(ops, len(notices)):
        notices.append(policy_notice(ops, len(notices)).decode())
    name, params = ops.name.decode(), policy_params(ops)
    return {
        "name": name,
        "doc": ops.doc.decode(),
        "kernel": ops.kernel.decode(),
        "tier": policy_tier(name, params, libs),
        "choices": choices,
        "notices": notices,
        "params": params,
    }


cdef str policy_tier(str name, list params, libs):
    """The tier of a policy by default, and the parameters that change it."""
    cdef str newest = kernels()[-1]["name"]

    def tier(spec):
        return "B" if feedback([spec], libs, kernel=newest) else "A"

    usual = tier(name)
    parts = [usual]
    for param in params:
        values = param["values"] or [param["min"], param["max"]]
        specs = {value: tier(f"{name}:{param['name']}={value}") for value in values}
        other = [value for value in values if specs[value] != usual]
        if param["values"] and len(other) == 1:
            parts.append(f"{param['name']}={other[0]}: {specs[other[0]]}")
        elif other:
            parts.append(f"by {param['name']}: {specs[other[0]]}")
    return "; ".join(parts)


cdef int open_stack(policy_stack **out, libs) except -1:
    """A stack of mainline that knows the policies of the shared objects too."""
    cdef error err
    check(policy_stack_new(out, policy_table, &err), &err)
    for path in libs:
        check(policy_stack_open(out[0], os.fsencode(path), &err), &err)
    return 0


cdef int add_policies(policy_stack *stack, specs) except -1:
    cdef error err
    for spec in specs:
        check(policy_stack_add(stack, spec.encode(), &err), &err)
    return 0


def policies(libs=()):
    cdef list out = []
    cdef policy_stack *stack = NULL
    cdef int i = 0
    while policy_table[i]:
        out.append(describe_policy(policy_table[i], ()))
        i += 1
    try:
        open_stack(&stack, libs)
        for i in range(stack.nr_libs):
            out.append(describe_policy(stack.libs[i].ops, libs))
    finally:
        policy_stack_free(stack)
    return out


def check_policies(specs, libs=()):
    cdef policy_stack *stack = NULL
    try:
        open_stack(&stack, libs)
        add_policies(stack, specs)
    finally:
        policy_stack_free(stack)


cdef const kernel *row_named(str name) except NULL:
    cdef const kernel *row
    cdef error err
    check(kernel_find(&row, name.encode(), &err), &err)
    return row


def feedback(specs, libs=(), *, kernel, own=None, sysctls={}):
    cdef policy_stack *stack = NULL
    cdef error err
    cdef bytes recorded = mainline_spec(keywords(sysctls, SYSCTLS))[0]
    cdef list out = []
    try:
        open_stack(&stack, libs)
        check(policy_stack_record(stack, recorded, &err), &err)
        add_policies(stack, specs)
        for i in range(stack.nr):
            if policy_stack_feedback(stack, i, row_named(kernel)):
                out.append(stack.all[i].ops.name.decode())
    finally:
        policy_stack_free(stack)
    if own is not None and not kernel_reclaim_same(row_named(kernel), row_named(own)):
        out.append(f"kernel {kernel}")
    return out


def zone_reclaim_mode(specs, libs=(), sysctls={}):
    cdef policy_stack *stack = NULL
    cdef error err
    cdef bytes recorded = mainline_spec(keywords(sysctls, SYSCTLS))[0]
    try:
        open_stack(&stack, libs)
        check(policy_stack_record(stack, recorded, &err), &err)
        add_policies(stack, specs)
        return policy_stack_zone_reclaim(stack).mode
    finally:
        policy_stack_free(stack)


cdef list run_policies_effect(const replay *r):
    cdef policy_effect effect
    cdef const char *spec
    cdef list out = []
    cdef int n = 0
    while spec := replay_policy_effect(r, n, &effect):
        n += 1
        text = (<const char *>effect.text).decode()
        if text:
            out.append(
                {
                    "policy": spec.decode(),
                    "choices": effect.choices,
                    "changed": None if effect.changed == EFFECT_UNKNOWN else effect.changed,
                    "text": text,
                }
            )
    return out
