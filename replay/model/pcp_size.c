// SPDX-License-Identifier: Apache-2.0
/* Sizes of PCPs, and of their refills and decays. */
#include "pcp.h"

#include "min_max.h"

/* zone_batchsize: 1/1024 of the zone, at most 1 MiB (512 KiB up to 2.6.33). */
static int batch_size(const struct model *m, const struct zone *zone)
{
	uint64_t most = (m->kernel->small_batch ? 512u << 10 : 1u << 20) / m->page_bytes;
	uint64_t batch = zone->managed / 1024;
	int power = 1;

	batch = (batch < most ? batch : most) / 4;
	batch = batch ? batch : 1;
	while ((uint64_t)power * 2 <= batch + batch / 2)
		power *= 2;
	return power - 1;
}

/* zone_highsize, 5.14 to 6.18: the share of one CPU of the zone's node. */
static int high_size(const struct model *m, const struct zone *zone, int batch, int fraction)
{
	int64_t pages = fraction ? (int64_t)zone->managed / fraction : zone->wmark[WMARK_LOW];
	int cpus = 0;

	for (int cpu = 0; cpu < m->nr_cpus; cpu++)
		cpus += m->cpu_nodes[cpu] == zone->node && cpu % m->zone_parts == zone->part;
	pages /= cpus ? cpus : m->nr_cpus;
	return max_int((int)(pages < INT32_MAX ? pages : INT32_MAX), 4 * batch);
}

void pcp_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int high_fraction)
{
	enum { AUTO_MAX_FRACTION = 8, MAX_BATCH = 96 };
	int batch = batch_size(m, zone);

	pcp->batch = max_int(batch, 1);
	switch ((enum kernel_pcp_tuning)m->kernel->pcp_tuning) {
	case PCP_FIXED:
		pcp->high = 6 * batch;
		if (high_fraction) {
			pcp->high = (int)(zone->managed / (uint64_t)high_fraction);
			pcp->batch = clamp_int(pcp->high / 4, 1, MAX_BATCH);
		}
		break;
	case PCP_FREE_FACTOR:
		pcp->high = high_size(m, zone, pcp->batch, high_fraction);
		break;
	case PCP_AUTO:
		pcp->high_min = high_size(m, zone, pcp->batch, high_fraction);
		pcp->high_max = high_size(m, zone, pcp->batch,
					  high_fraction ? high_fraction : AUTO_MAX_FRACTION);
		pcp->high = pcp->high_min;
		break;
	}
}

void pcp_set_sizes(struct model *m, const struct zone *zone, int high_fraction)
{
	for (int cpu = 0; cpu < m->nr_cpus; cpu++)
		pcp_size(m, zone, zone_pcp(m, zone, cpu), high_fraction);
}

/* A refill of an order, from the pages of one of order 0: nr_pcp_alloc. */
static int refill_of(int batch, int order)
{
	return batch > 1 ? max_int(batch >> order, 2) : batch;
}

/* Whether refills of an order double while nothing is freed. */
static bool refill_doubles(const struct model *m, int order)
{
	return m->kernel->refill_scaling > (order ? REFILL_ORDER_0 : REFILL_PLAIN);
}

/* nr_pcp_alloc, 6.8 to 6.18; with PCPs of one size as in the series of that rule. */
static int refill_scaled(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	bool tuned = m->kernel->pcp_tuning == PCP_AUTO, doubles = refill_doubles(m, order);
	int batch = doubles ? pcp->batch << pcp->alloc_factor : pcp->batch, high;

	if (tuned)
		pcp->high = clamp_int(pcp->high, pcp->high_min, pcp->high_max);
	high = pcp->high;
	if (high < pcp->batch)
		return 1;
	if (tuned && pcp->high_min != pcp->high_max && !zone->below_high)
		high = pcp->high = min_int(high + batch, pcp->high_max);
	if (doubles) {
		int cap = max_int(high - pcp->count - pcp->batch, pcp->batch);

		if (batch <= cap && pcp->alloc_factor < m->kernel->pcp_scale_max)
			pcp->alloc_factor++;
		batch = min_int(batch, cap);
	}
	return refill_of(batch, order);
}

int pcp_refill_most(const struct model *m, const struct pcp *pcp, int order)
{
	if (refill_doubles(m, order))
		return refill_of(max_int(pcp->batch, 1) << m->kernel->pcp_scale_max, order);
	return max_int(refill_of(pcp->batch, order), 1);
}

int pcp_refill_size(const struct model *m, const struct zone *zone, struct pcp *pcp, int order)
{
	switch ((enum kernel_pcp_tuning)m->kernel->pcp_tuning) {
	case PCP_FIXED:
		return pcp->batch;
	case PCP_FREE_FACTOR:
		if (m->kernel->refill_scaling == REFILL_PLAIN)
			return refill_of(pcp->batch, order);
		break;
	case PCP_AUTO:
		break;
	}
	return refill_scaled(m, zone, pcp, order);
}

int pcp_decay(const struct model *m, struct pcp *pcp)
{
	int excess;

	if (pcp->high > pcp->high_min)
		pcp->high = max_int(max_int(pcp->count - (pcp->batch << m->kernel->pcp_scale_max),
					    pcp->high - (pcp->high >> 3)),
				    pcp->high_min);
	excess = pcp->count - pcp->high;
	return max_int(excess, 0);
}
