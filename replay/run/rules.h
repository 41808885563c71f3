/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - the rules of inference, each of which a build with -Drules=true can switch off.
 *
 * What a rule pays is measured (analyze/lab/ablate.py): PAGETAPE_RULES_OFF names rules, with commas
 * between them. The installed engine has no such switch: rule_is_on() is true at compile time.
 */
#pragma once

#include <stdbool.h>

#define FOR_EACH_RULE(RULE)                                                                        \
	RULE(make_first)     /* the recorded block becomes the first of its list */                \
	RULE(compaction)     /* recorded compaction is followed */                                 \
	RULE(tuning)         /* tuning of a PCP, from the size of a refill or drain */             \
	RULE(preempted)      /* pages that left a PCP list long before their events */             \
	RULE(refilled_for)   /* of these: the first page of a refill */                            \
	RULE(proved)         /* pages that left a PCP list, before a drain that did not come */    \
	RULE(unseen_drains)  /* pages that left a PCP list for the free lists without an event */  \
	RULE(unseen_refills) /* of a drain: pages that joined a PCP list from the free lists so */ \
	RULE(contig_frees)   /* contiguous pages that are freed together */                        \
	RULE(late_frees)     /* pages that joined a PCP list after their events */                 \
	RULE(zone_order)     /* of these: past the PCP, while another CPU took a page */           \
	RULE(take_back)      /* of these: pages that may join later, once that is likelier */      \
	RULE(lock_of_others) /* the lock of a PCP, held by another CPU */                          \
	RULE(lock_of_own)    /* the lock of a PCP, held by the task that an interrupt stopped */   \
	RULE(interrupted)    /* the alloc that an interrupt stopped has its page */                \
	RULE(list_order)     /* what the zone of a request shows: boosts, dirty limits */          \
	RULE(move_recorded)  /* 4.20 to 6.8: the recorded chunk is the one moved */                \
	RULE(claim_recorded) /* 6.10 on: the recorded chunk is the one claimed */                  \
	RULE(take_bulk)      /* a refill for alloc_pages_bulk */                                   \
	RULE(start_tuning)   /* a start without a snapshot: the tuning of its PCPs */              \
	RULE(stamps)         /* the state of PCPs and zones that the recorder read */

enum rule {
#define RULE(name) RULE_##name,
	FOR_EACH_RULE(RULE)
#undef RULE
};

#ifdef RULES_CAN_BE_OFF
bool rule_is_on(enum rule rule);
#else
static inline bool rule_is_on(enum rule rule)
{
	return true;
}
#endif
