/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_effect.h - what the decisions of a policy came to in one run.
 *
 * A policy fills one in at the end of a run (policy_ops.effect), from the machine, from what its
 * hooks saw and from the run's counters.
 */
#pragma once

#include "counters.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

enum { EFFECT_UNKNOWN = -1, EFFECT_TEXT = 256 };

struct policy_effect {
	/* Times the policy could choose. The unit is the policy's own: its text names it. */
	uint64_t choices;
	/* Choices that mainline would have made differently; EFFECT_UNKNOWN: not computed. */
	int64_t changed;
	/* What follows the policy's name in a sentence, without a full stop. */
	char text[EFFECT_TEXT];
};

/* Ending of a noun after its number. */
static inline const char *plural(uint64_t nr)
{
	return nr == 1 ? "" : "s";
}

/* The policy never had a choice, for this reason. */
__attribute__((format(printf, 2, 3))) static inline void effect_never(struct policy_effect *effect,
								      const char *reason, ...)
{
	static const char never[] = "never had a choice here: ";
	va_list args;

	effect->choices = 0;
	effect->changed = 0;
	snprintf(effect->text, sizeof(effect->text), "%s", never);
	va_start(args, reason);
	vsnprintf(effect->text + sizeof(never) - 1, sizeof(effect->text) - sizeof(never) + 1,
		  reason, args);
	va_end(args);
}

/* The policy had `choices`, and decided `changed` of them otherwise than mainline. */
__attribute__((format(printf, 4, 5))) static inline void
effect_decided(struct policy_effect *effect, uint64_t choices, int64_t changed, const char *text,
	       ...)
{
	va_list args;

	effect->choices = choices;
	effect->changed = changed;
	va_start(args, text);
	vsnprintf(effect->text, sizeof(effect->text), text, args);
	va_end(args);
}
