// SPDX-License-Identifier: Apache-2.0
/*
 * The watermarks that sysctls set, by the figures of a machine of 24 GiB: Linux 6.18, two CPUs,
 * vm.min_free_kbytes 67584, vm.watermark_scale_factor 10.
 */
#include "check.h"
#include "toy.h"

#include "policies/policies.h"

enum { DMA, DMA32, NORMAL, NR_ZONES };

static struct zone_spec zone(int node, int type, uint64_t managed)
{
	return (struct zone_spec){
		.node = (uint16_t)node, .type = (uint8_t)type, .managed = managed};
}

/* That machine's zones, with only their sizes. */
static void machine_zones(struct zone_spec *zones)
{
	zones[DMA] = zone(0, ZONE_DMA, 3840);
	zones[DMA32] = zone(0, ZONE_DMA32, 772497);
	zones[NORMAL] = zone(0, ZONE_NORMAL, 5394267);
}

/* Whether the policy reports that it set watermarks. */
static bool apply_to(const struct machine *machine, const char *spec, struct zone_spec *zones,
		     int nr)
{
	struct policy_stack *stack;
	struct policy *owner;
	bool changed;

	check(!policy_stack_new(&stack, policies, NULL));
	check(!policy_stack_add(stack, spec, NULL));
	owner = stack->owner.watermarks;
	changed = owner->ops->watermarks(owner, machine, zones, nr);
	policy_stack_free(stack);
	return changed;
}

static bool apply(const char *spec, struct zone_spec *zones, int nr)
{
	const struct machine machine = toy_machine(9, 10);

	return apply_to(&machine, spec, zones, nr);
}

static bool marks_are(const struct zone_spec *zone, int64_t min, int64_t low, int64_t high)
{
	return zone->wmark[WMARK_MIN] == min && zone->wmark[WMARK_LOW] == low &&
	       zone->wmark[WMARK_HIGH] == high;
}

TEST(every_zone_keeps_its_share_of_min_free_kbytes)
{
	struct zone_spec zones[NR_ZONES];

	machine_zones(zones);
	zones[NORMAL].wmark_promo = 1;
	zones[NORMAL].boost = 3072;
	check(apply("watermarks:min_free_kbytes=67584,watermark_scale_factor=10", zones, NR_ZONES));
	check(marks_are(&zones[DMA], 10, 13, 16));
	check(marks_are(&zones[DMA32], 2115, 2887, 3659));
	check(marks_are(&zones[NORMAL], 14770, 20164, 25558));
	check(zones[NORMAL].wmark_promo == 30952);
	check(zones[NORMAL].boost == 0);
	check(zones[DMA32].wmark_promo == 0);
}

TEST(min_free_kbytes_is_fewer_pages_if_they_are_larger)
{
	struct machine machine = toy_machine(13, 13);
	struct zone_spec zones[NR_ZONES];

	machine.page_bytes = 64 << 10;
	machine_zones(zones);
	check(apply_to(&machine, "watermarks:min_free_kbytes=1081344,watermark_scale_factor=10",
		       zones, NR_ZONES));
	check(marks_are(&zones[NORMAL], 14770, 20164, 25558));
}

TEST(the_scale_factor_widens_marks_that_min_leaves_close)
{
	struct zone_spec zones[NR_ZONES];

	machine_zones(zones);
	check(apply("watermarks:min_free_kbytes=67584,watermark_scale_factor=100", zones,
		    NR_ZONES));
	check(marks_are(&zones[NORMAL], 14770, 14770 + 53942, 14770 + 2 * 53942));
	/* Here a quarter of min is larger than 1/10000 of the zone. */
	check(apply("watermarks:min_free_kbytes=67584,watermark_scale_factor=1", zones, NR_ZONES));
	check(marks_are(&zones[NORMAL], 14770, 14770 + 3692, 14770 + 2 * 3692));
}

TEST(parameters_that_are_not_given_stay_as_recorded)
{
	struct zone_spec zones[NR_ZONES];

	machine_zones(zones);
	apply("watermarks:min_free_kbytes=67584,watermark_scale_factor=20", zones, NR_ZONES);
	check(marks_are(&zones[NORMAL], 14770, 14770 + 10788, 14770 + 2 * 10788));
	apply("watermarks:min_free_kbytes=33792", zones, NR_ZONES);
	check(marks_are(&zones[NORMAL], 7385, 7385 + 10788, 7385 + 2 * 10788));
	apply("watermarks:watermark_scale_factor=10", zones, NR_ZONES);
	check(marks_are(&zones[NORMAL], 7385, 7385 + 5394, 7385 + 2 * 5394));
	check(!apply("watermarks", zones, NR_ZONES));
	check(!apply("mainline", zones, NR_ZONES));
	check(marks_are(&zones[NORMAL], 7385, 7385 + 5394, 7385 + 2 * 5394));
	/* A step of a quarter of min does not show the factor: the kernel's default applies. */
	zones[NORMAL].wmark[WMARK_LOW] = 7385 + 1846;
	zones[NORMAL].wmark[WMARK_HIGH] = 7385 + 2 * 1846;
	apply("watermarks:min_free_kbytes=67584", zones, NR_ZONES);
	check(marks_are(&zones[NORMAL], 14770, 20164, 25558));
}

TEST(a_movable_zone_keeps_32_to_128_pages_and_has_no_share)
{
	static const struct {
		uint64_t managed;
		int64_t min, step;
	} cases[] = {
		{20000, 32, 2500},
		{100000, 97, 12500},
		{1000000, 128, 125000},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct zone_spec zones[] = {zone(0, ZONE_NORMAL, 40000),
					    zone(1, ZONE_MOVABLE, cases[i].managed)};
		int64_t min = cases[i].min, step = cases[i].step;

		apply("watermarks:min_free_kbytes=80000,watermark_scale_factor=10", zones, 2);
		check(marks_are(&zones[0], 20000, 25000, 30000));
		check(marks_are(&zones[1], min, min + step, min + 2 * step));
	}
}

TEST(the_ratio_reserves_lower_zones_against_requests_for_higher_ones)
{
	static const int64_t dma[NR_ZONE] = {[ZONE_DMA32] = 3017,
					     [ZONE_NORMAL] = 24088,
					     [ZONE_HIGHMEM] = 24088,
					     [ZONE_MOVABLE] = 24088,
					     [ZONE_DEVICE] = 24088};
	struct zone_spec zones[NR_ZONES + 1];

	machine_zones(zones);
	zones[NR_ZONES] = zone(1, ZONE_NORMAL, 1000000);
	check(!apply("watermarks:reserve_ratio_dma=256,reserve_ratio_dma32=256", zones,
		     NR_ZONES + 1));
	for (int type = 0; type < NR_ZONE; type++) {
		check(zones[DMA].lowmem_reserve[type] == dma[type]);
		check(zones[DMA32].lowmem_reserve[type] == (type < ZONE_NORMAL ? 0 : 21071));
		check(zones[NORMAL].lowmem_reserve[type] == 0);
	}
	apply("watermarks:reserve_ratio_dma32=0", zones, NR_ZONES);
	check(zones[DMA32].lowmem_reserve[ZONE_NORMAL] == 0);
	check(zones[DMA].lowmem_reserve[ZONE_NORMAL] == 24088);
}
