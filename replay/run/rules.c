// SPDX-License-Identifier: Apache-2.0
#include "run/rules.h"

#ifdef RULES_CAN_BE_OFF
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define RULE(name) #name,
	FOR_EACH_RULE(RULE)
#undef RULE
};

/* A bit per rule that the environment switches off. A name that is no rule ends the program. */
static uint64_t rules_off(void)
{
	const char *at = getenv("PAGETAPE_RULES_OFF");
	uint64_t off = 0;

	while (at && *at) {
		size_t length = strcspn(at, ","), i = 0;

		while (i < sizeof(names) / sizeof(*names) &&
		       (strlen(names[i]) != length || strncmp(names[i], at, length) != 0))
			i++;
		if (i == sizeof(names) / sizeof(*names))
			abort();
		off |= 1ull << i;
		at += length + (at[length] == ',');
	}
	return off;
}

bool rule_is_on(enum rule rule)
{
	static _Atomic uint64_t known; /* with the highest bit, once read */

	if (!known)
		known = rules_off() | 1ull << 63;
	return !(known >> rule & 1);
}
#endif
