/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mixing.h - counts the requests for which a policy chose whether migratetypes mix.
 *
 * Such a request finds the lists of its migratetype empty in a zone, and part of a foreign
 * pageblock free. One request may meet many such zones and chunks; it counts once.
 */
#pragma once

#include "policy.h"

struct mixing {
	uint64_t requests; /* that the policy decided */
	uint64_t changed;  /* of them, those that mainline decides otherwise */
	uint64_t no_room;  /* that no lower zone could have served either */
	/* The last request, and whether it is counted in `changed` */
	uint64_t ts;
	uint16_t cpu;
	bool known, is_changed;
};

/*
 * Hooks of a policy that owns `nofragment` and answers `span` for the request: a zone refused to
 * mix (on_unmixed), or mixed (on_fallback, below pageblock order).
 */
void mixing_refused(struct mixing *mixing, struct policy *self, const struct model *m,
		    const struct request *rq, enum nofragment_span span);
void mixing_allowed(struct mixing *mixing, struct policy *self, const struct model *m,
		    const struct request *rq);

/* The effect of a policy that refuses to mix until reclaim has failed. */
void mixing_effect_always(const struct mixing *mixing, struct policy_effect *effect);
