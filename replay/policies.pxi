# The policies in Python, included by _replay.pyx; _replay.pyi documents them.

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


cdef dict describe_policy(const policy_ops *ops):
    choices, notices = [], []
    while policy_choice(ops, len(choices)):
        choices.append(policy_choice(ops, len(choices)).decode())
    while policy_notice(ops, len(notices)):
        notices.append(policy_notice(ops, len(notices)).decode())
    return {
        "name": ops.name.decode(),
        "doc": ops.doc.decode(),
        "kernel": ops.kernel.decode(),
        "tier": ops.tier.decode(),
        "choices": choices,
        "notices": notices,
        "params": policy_params(ops),
    }


def policies(libs=()):
    cdef list out = []
    cdef policy_stack *stack = NULL
    cdef error err
    cdef int i = 0
    while policy_table[i]:
        out.append(describe_policy(policy_table[i]))
        i += 1
    try:
        check(policy_stack_new(&stack, policy_table, &err), &err)
        for path in libs:
            check(policy_stack_open(stack, os.fsencode(path), &err), &err)
        for i in range(stack.nr_libs):
            out.append(describe_policy(stack.libs[i].ops))
    finally:
        policy_stack_free(stack)
    return out


def check_policies(specs, libs=()):
    cdef policy_stack *stack = NULL
    cdef error err
    try:
        check(policy_stack_new(&stack, policy_table, &err), &err)
        for path in libs:
            check(policy_stack_open(stack, os.fsencode(path), &err), &err)
        for spec in specs:
            check(policy_stack_add(stack, spec.encode(), &err), &err)
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
