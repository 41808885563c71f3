/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canonical.h - maps one kernel's numbers to the tape's canonical numbers.
 *
 * The numbers of migratetypes, zones and gfp bits vary between kernels and configurations; their
 * names do not. The print formats of the traced kernel's events have the names of zones and gfp
 * bits, its /proc/pagetypeinfo has those of the migratetypes.
 */
#pragma once

#include "tables.h"

#include <event-parse.h>
#include <stdbool.h>
#include <stdint.h>

enum { NOT_CANONICAL = 0xff }; /* a number without a name, or with an unknown one */

struct canonical {
	uint8_t migratetype[256], zone[16];
	uint8_t context[256];  /* by common_flags */
	uint32_t gfp[4][256];  /* by byte of the kernel's value */
	bool gfp_known;        /* false: no event format names any bit */
	char gfp_name[32][32]; /* the kernel's name of each bit, or "" */
	int pageblock_order;   /* as mm_page_alloc_extfrag prints it, or -1 */
};

/* Learn the numbers from all formats in `tep`. For the migratetypes see struct decoder_names. */
void canonical_init(struct canonical *c, struct tep_handle *tep, int nr_migratetypes,
		    const char *const *migratetypes);

/* The zone of a name, case ignored, or NOT_CANONICAL. */
uint8_t canonical_zone_by_name(const char *name, size_t length);

/* The bit of a flag's name, "__GFP_IO" or "GFP_IO", also a former name; 0 if it has none. */
uint32_t canonical_gfp_by_name(const char *name);

static inline uint8_t canonical_migratetype(const struct canonical *c, uint32_t number)
{
	return c->migratetype[number < NOT_CANONICAL ? number : NOT_CANONICAL];
}

static inline uint8_t canonical_zone(const struct canonical *c, uint64_t number)
{
	return number < sizeof(c->zone) ? c->zone[number] : NOT_CANONICAL;
}

/* Bits that have no canonical name are dropped. */
static inline uint32_t canonical_gfp(const struct canonical *c, uint64_t gfp)
{
	return c->gfp[0][gfp & 0xff] | c->gfp[1][gfp >> 8 & 0xff] | c->gfp[2][gfp >> 16 & 0xff] |
	       c->gfp[3][gfp >> 24 & 0xff];
}

static inline uint8_t canonical_context(const struct canonical *c, uint8_t flags,
					uint8_t preempt_count)
{
	/* The upper half of the byte counts migrate_disable() in newer kernels. */
	return c->context[flags] | (preempt_count & 0x0f ? CONTEXT_PREEMPT_OFF : 0);
}
