// SPDX-License-Identifier: Apache-2.0
/* The programs; their globals are the maps. */
#include "snapshot/snapshot.bpf.c"

#include "precopy_kernel.h"
#include "tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/xattr.h>

enum {
	FIRST_PFN = 1 << 20, /* as a zone Normal */
	SECTION_SHIFT = 15,
	BLOCK_ORDER = 9,
	TOP_ORDER = 10,
	PCP_BATCH = 63,
	PCP_TYPES = 3,
	FREE_TYPE = 0x12345678, /* page_type of a free block */
	CALL_NS = 1200,         /* of a program */
	STEP_NS = 2,
	LOOKUP_NS = 3,
	NEAR_NS = 30,     /* for a read of memory that is in a cache */
	WAKE_NS = 15000,  /* from one CPU's begin of a meeting to the last one's */
	LEAD_NS = 150000, /* as in freeze.c, and the next one */
	MORE_LEAD_NS = 3000,
};

struct map_memory {
	const void *map;
	uint8_t *memory;
	size_t size, room;
};

/* A block in use. */
struct used {
	uint64_t pfn;
	uint32_t order;
};

struct list_copy {
	uint64_t *pfns;
	uint64_t nr;
};

/* An event that its CPU has not reported yet. */
struct pending_event {
	int (*program)(__u64 *);
	__u64 args[4];
};

static struct {
	struct sim_options options;
	struct snapshot snapshot;
	struct map_memory maps[16];
	int nr_maps;
	struct page *pages; /* that of pfn FIRST_PFN first */
	size_t pages_size;
	struct zone *zones;
	struct per_cpu_pages *pcps; /* by zone, then CPU */
	uint8_t *stats;
	uint8_t *orders; /* by page: 1 + order of the free block that begins there */
	uint8_t *in_pcp; /* by page: it is in a PCP */
	struct mem_section *sections;
	struct mem_section **roots;
	struct mem_section_usage *usage;
	uint8_t *block_types;
	struct used *used;
	uint64_t nr_used, room_used;
	struct list_copy *truth; /* by number of list, as in segments */
	uint8_t *true_types;
	uint64_t random, now_ns, next_ns, changes;
	bool busy; /* inside a change or an event */
	bool held;
	struct pending_event pending;
	uint32_t cpu, tid;
	struct freezer_cpu *cpus;
	struct freezer_hold *holds;
} sim;

static uint64_t random_below(uint64_t limit)
{
	sim.random ^= sim.random << 13;
	sim.random ^= sim.random >> 7;
	sim.random ^= sim.random << 17;
	return (sim.random >> 11) % limit;
}

static bool by_chance(double share)
{
	return (double)random_below(1 << 20) < share * (1 << 20);
}

static struct page *page_at(uint64_t pfn)
{
	return &sim.pages[pfn - FIRST_PFN];
}

static uint64_t pfn_at(const struct list_head *node)
{
	return FIRST_PFN + (uint64_t)((const struct page *)node - sim.pages);
}

static uint8_t *block_type(uint64_t pfn)
{
	return &sim.block_types[(pfn - FIRST_PFN) >> BLOCK_ORDER];
}

static void set_block_type(uint64_t pfn, uint8_t type)
{
	uint64_t in_section = pfn & ((1 << SECTION_SHIFT) - 1);
	struct mem_section *section = &sim.sections[pfn >> SECTION_SHIFT];

	*block_type(pfn) = type;
	((uint8_t *)section->usage->pageblock_flags)[in_section >> BLOCK_ORDER] = type;
}

static struct zone *zone_at(uint64_t pfn)
{
	return &sim.zones[(pfn - FIRST_PFN) / sim.options.pages];
}

static struct per_cpu_pages *pcp_at(uint32_t z, uint32_t cpu)
{
	return &sim.pcps[z * sim.options.cpus + cpu];
}

/* --- lists --- */

static void insert(struct list_head *node, struct list_head *prev, struct list_head *next)
{
	node->next = next;
	node->prev = prev;
	prev->next = node;
	next->prev = node;
}

static void add(struct list_head *head, struct list_head *node, bool tail)
{
	if (tail)
		insert(node, head->prev, head);
	else
		insert(node, head, head->next);
}

static void drop(struct list_head *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->next = (void *)0xdead000000000100;
	node->prev = (void *)0xdead000000000122;
}

static bool is_empty(const struct list_head *head)
{
	return head->next == head;
}

/* --- events --- */

static void report(void)
{
	sim.changes += sim.pending.program != NULL;
	if (sim.pending.program)
		sim.pending.program(sim.pending.args);
	sim.pending.program = NULL;
}

/* Sometimes the walks go on between the change and its event. */
static void fire(int (*program)(__u64 *), __u64 a, __u64 b, __u64 c, __u64 d)
{
	report();
	sim.pending = (struct pending_event){program, {a, b, c, d}};
	if (!by_chance(0.02))
		report();
}

static void fire_now(int (*program)(__u64 *), uint64_t pfn, uint32_t order)
{
	report();
	sim.pending = (struct pending_event){program, {(__u64)page_at(pfn), order, 0, 0}};
	report();
}

/* --- the buddy allocator --- */

static void add_block(uint64_t pfn, uint32_t order, bool tail)
{
	struct zone *zone = zone_at(pfn);
	struct free_area *area = &zone->free_area[order];

	page_at(pfn)->private = order;
	page_at(pfn)->page_type = FREE_TYPE;
	add(&area->free_list[*block_type(pfn)], &page_at(pfn)->lru, tail);
	area->nr_free++;
	zone->vm_stat[0].counter += 1l << order;
	sim.orders[pfn - FIRST_PFN] = (uint8_t)(1 + order);
}

static void take_block(uint64_t pfn, uint32_t order)
{
	struct zone *zone = zone_at(pfn);

	drop(&page_at(pfn)->lru);
	page_at(pfn)->page_type = ~0u;
	page_at(pfn)->private = 0;
	zone->free_area[order].nr_free--;
	zone->vm_stat[0].counter -= 1l << order;
	sim.orders[pfn - FIRST_PFN] = 0;
}

/* The zone's lock is held until an event is reported, so before the next change. */
static void free_block(uint64_t pfn, uint32_t order)
{
	report();
	while (order < TOP_ORDER) {
		uint64_t buddy = pfn ^ 1ull << order;

		if (buddy < FIRST_PFN || sim.orders[buddy - FIRST_PFN] != 1 + order ||
		    *block_type(buddy) != *block_type(pfn) || zone_at(buddy) != zone_at(pfn))
			break;
		take_block(buddy, order);
		pfn &= ~(1ull << order);
		order++;
	}
	add_block(pfn, order, random_below(2));
}

/* 0: no block of this type. */
static uint64_t alloc_block(struct zone *zone, uint32_t order, uint32_t type)
{
	report();
	for (uint32_t from = order; from <= TOP_ORDER; from++) {
		struct list_head *head = &zone->free_area[from].free_list[type];
		uint64_t pfn;

		if (is_empty(head))
			continue;
		pfn = pfn_at(head->next);
		take_block(pfn, from);
		while (from-- > order)
			add_block(pfn + (1ull << from), from, false);
		return pfn;
	}
	return 0;
}

static void use(uint64_t pfn, uint32_t order)
{
	if (sim.nr_used == sim.room_used) {
		sim.room_used = 2 * sim.room_used + 1024;
		sim.used = realloc(sim.used, sim.room_used * sizeof(*sim.used));
	}
	sim.used[sim.nr_used++] = (struct used){pfn, order};
}

static bool unuse(struct used *one)
{
	uint64_t i;

	if (!sim.nr_used)
		return false;
	i = random_below(sim.nr_used);
	/* The youngest ones go first, as the kernel's do. */
	if (random_below(4))
		i = sim.nr_used - 1 - random_below(sim.nr_used < 64 ? sim.nr_used : 64);
	*one = sim.used[i];
	sim.used[i] = sim.used[--sim.nr_used];
	return true;
}

/* --- PCPs --- */

static struct list_head *pcp_list(struct per_cpu_pages *pcp, uint64_t pfn, uint32_t order)
{
	uint32_t type = *block_type(pfn);

	if (order == BLOCK_ORDER)
		return &pcp->lists[type == MIGRATE_MOVABLE ? 13 : 12];
	return &pcp->lists[order * PCP_TYPES + (type < PCP_TYPES ? type : MIGRATE_MOVABLE)];
}

static void refill(struct per_cpu_pages *pcp, struct zone *zone, uint32_t order, uint32_t type)
{
	uint64_t batch = 1 + random_below(PCP_BATCH);

	while (batch--) {
		uint64_t pfn = alloc_block(zone, order, type);

		if (!pfn)
			return;
		zone->lock.rlock.unused = 1;
		fire(cut_precopied, (__u64)page_at(pfn), order, type, 1);
		add(pcp_list(pcp, pfn, order), &page_at(pfn)->lru, true);
		sim.in_pcp[pfn - FIRST_PFN] = 1;
		pcp->count += 1 << order;
		zone->lock.rlock.unused = 0;
	}
}

static void drain(struct per_cpu_pages *pcp, uint32_t pages)
{
	for (uint32_t i = 0, l = (uint32_t)random_below(14); i < 14 && pages;
	     i++, l = (l + 1) % 14) {
		struct list_head *head = &pcp->lists[l];
		uint32_t order = l >= 12 ? BLOCK_ORDER : l / PCP_TYPES;

		while (pages && !is_empty(head)) {
			uint64_t pfn = pfn_at(head->prev);

			drop(head->prev);
			sim.in_pcp[pfn - FIRST_PFN] = 0;
			pcp->count -= 1 << order;
			free_block(pfn, order);
			fire(touch_drained, (__u64)page_at(pfn), order, 0, 0);
			pages -= pages > 1u << order ? 1u << order : pages;
		}
	}
}

static void pcp_alloc(uint32_t z, uint32_t cpu)
{
	uint32_t order = random_below(8)    ? 0
			 : random_below(20) ? (uint32_t)random_below(4)
					    : BLOCK_ORDER;
	uint32_t type = random_below(3) ? MIGRATE_MOVABLE : (uint32_t)random_below(PCP_TYPES);
	struct per_cpu_pages *pcp = pcp_at(z, cpu);
	struct list_head *head = order == BLOCK_ORDER
					 ? &pcp->lists[type == MIGRATE_MOVABLE ? 13 : 12]
					 : &pcp->lists[order * PCP_TYPES + type];
	uint64_t pfn;

	if (is_empty(head))
		refill(pcp, &sim.zones[z], order, type);
	if (is_empty(head))
		return;
	pfn = pfn_at(head->next);
	drop(head->next);
	sim.in_pcp[pfn - FIRST_PFN] = 0;
	pcp->count -= 1 << order;
	use(pfn, order);
}

static bool has_pcp_list(uint32_t order)
{
	return order <= 3 || order == BLOCK_ORDER;
}

static void free_used(uint32_t cpu)
{
	uint32_t walker = sim.cpu;
	struct used one;
	struct per_cpu_pages *pcp;

	if (!unuse(&one))
		return;
	pcp = pcp_at((uint32_t)(zone_at(one.pfn) - sim.zones), cpu);
	/* The PCP's lock is taken by a task that this free interrupts. */
	pcp->lock.rlock.unused = by_chance(sim.options.interrupts);
	sim.cpu = cpu;
	fire_now(touch_freed, one.pfn, one.order);
	sim.cpu = walker;
	if (!has_pcp_list(one.order) || pcp->lock.rlock.unused || by_chance(sim.options.silent)) {
		pcp->lock.rlock.unused = 0;
		free_block(one.pfn, one.order);
		return;
	}
	add(pcp_list(pcp, one.pfn, one.order), &page_at(one.pfn)->lru, false);
	sim.in_pcp[one.pfn - FIRST_PFN] = 1;
	pcp->count += 1 << one.order;
	if (pcp->count > 2 * (int)sim.options.pcp_pages + PCP_BATCH)
		drain(pcp, PCP_BATCH);
}

static void direct_alloc(uint32_t z)
{
	uint32_t order = 4 + (uint32_t)random_below(4), type = (uint32_t)random_below(PCP_TYPES);
	uint64_t pfn = alloc_block(&sim.zones[z], order, type);

	if (!pfn)
		return;
	fire(cut_precopied, (__u64)page_at(pfn), order, type, 0);
	use(pfn, order);
}

/* A pageblock changes its type, or compaction takes its free pages. */
static void change_block(uint32_t z, bool claim)
{
	uint64_t pfn = FIRST_PFN + z * sim.options.pages +
		       (random_below(sim.options.pages >> BLOCK_ORDER) << BLOCK_ORDER);
	uint64_t taken = 0, first = 0;
	uint8_t type = (uint8_t)random_below(PCP_TYPES);

	for (uint64_t at = pfn; at < pfn + (1 << BLOCK_ORDER);) {
		uint8_t order = sim.orders[at - FIRST_PFN];

		if (order && order - 1 > BLOCK_ORDER)
			return;
		at += order ? 1ull << (order - 1) : 1;
	}
	/* A larger block may begin before this one. */
	if (sim.orders[(pfn & ~(1ull << BLOCK_ORDER)) - FIRST_PFN] > 1 + BLOCK_ORDER)
		return;
	if (claim)
		set_block_type(pfn, type);
	for (uint64_t at = pfn; at < pfn + (1 << BLOCK_ORDER);) {
		uint32_t order = sim.orders[at - FIRST_PFN];

		if (!order) {
			at++;
			continue;
		}
		take_block(at, order - 1);
		if (claim && taken)
			add_block(at, order - 1, true);
		else
			use(at, order - 1);
		first = first ? first : at;
		taken++;
		at += 1ull << (order - 1);
	}
	if (claim && by_chance(sim.options.silent))
		return;
	if (claim && first)
		fire(touch_claimed, (__u64)page_at(first), 0, 0, 0);
	else if (claim)
		fire(touch_claimed, (__u64)page_at(pfn), 0, 0, 0);
	else
		fire(touch_isolated, pfn, pfn + (1 << BLOCK_ORDER), 1, taken);
}

/* The first half goes to the tail, as compaction does it. */
static void turn_list_over(uint32_t z)
{
	struct free_area *area = &sim.zones[z].free_area[random_below(TOP_ORDER + 1)];
	struct list_head *head = &area->free_list[random_below(PCP_TYPES)], *first;

	report();
	for (uint64_t nr = random_below(area->nr_free + 1); nr && head->next != head; nr--) {
		first = head->next;
		first->prev->next = first->next;
		first->next->prev = first->prev;
		add(head, first, true);
	}
}

static void change(void)
{
	uint32_t z = (uint32_t)random_below(sim.options.zones);
	uint32_t cpu = (uint32_t)random_below(sim.options.cpus);

	sim.changes++;
	if (by_chance(sim.options.turns))
		turn_list_over(z);
	else if (by_chance(sim.options.cross))
		change_block(z, random_below(2));
	else if (!random_below(50))
		direct_alloc(z);
	else if (!random_below(200))
		drain(pcp_at(z, cpu), PCP_BATCH);
	else if (random_below(2))
		pcp_alloc(z, cpu);
	else
		free_used(cpu);
}

/* --- time --- */

static void pass_time(uint64_t ns)
{
	uint64_t now_ns = sim.now_ns + ns, before;

	sim.now_ns = now_ns;
	if (sim.busy || sim.held)
		return;
	sim.busy = true;
	while (now_ns >= sim.next_ns) {
		before = sim.changes;
		report();
		change();
		sim.next_ns +=
			(uint64_t)((double)(sim.changes - before) * 2e6 /
				   sim.options.changes_per_ms * (double)random_below(1024) / 1024) +
			1;
	}
	sim.now_ns = now_ns; /* other CPUs did that */
	sim.busy = false;
}

/* --- what the programs call --- */

void *host_element(const void *map, uint32_t i)
{
	for (int m = 0; m < sim.nr_maps; m++) {
		if (sim.maps[m].map != map)
			continue;
		sim.now_ns += LOOKUP_NS;
		return i < sim.maps[m].room ? sim.maps[m].memory + i * sim.maps[m].size : NULL;
	}
	return NULL;
}

long bpf_loop(uint32_t nr, void *callback, void *context, uint64_t flags)
{
	long (*step)(uint32_t, void *) = (long (*)(uint32_t, void *))callback;
	uint32_t i = 0;

	(void)flags;
	while (i < nr) {
		sim.now_ns += STEP_NS;
		if (step(i++, context))
			break;
	}
	return i;
}

uint64_t bpf_ktime_get_ns(void)
{
	return sim.now_ns;
}

uint32_t bpf_get_smp_processor_id(void)
{
	return sim.cpu;
}

uint64_t bpf_get_current_pid_tgid(void)
{
	return sim.tid;
}

uint64_t bpf_get_current_task(void)
{
	return 0;
}

static bool page_of_address(uint64_t address)
{
	uint64_t first = (uint64_t)sim.pages;

	return address >= first && address < first + sim.pages_size;
}

/* A pointer that leads nowhere is an error, as in the kernel. Stack and globals are readable. */
long bpf_probe_read_kernel(void *to, uint32_t size, const void *from)
{
	uint64_t address = (uint64_t)from;

	/* A struct page is rarely in a cache; what the programs read again and again is. */
	pass_time(page_of_address(address) ? sim.options.read_ns : NEAR_NS);
	if (address < 4096 || address >> 47)
		return -EFAULT;
	memcpy(to, from, size);
	return 0;
}

long bpf_probe_read_kernel_str(void *to, uint32_t size, const void *from)
{
	memcpy(to, from, strnlen(from, size - 1) + 1);
	return 0;
}

/* --- what snapshot_precopy.c calls --- */

uint64_t snapshot_now_ns(void)
{
	return sim.now_ns;
}

void snapshot_run_with(struct snapshot *s, const char *name, void *context, size_t size)
{
	static const struct {
		const char *name;
		int (*program)(struct precopy_args *);
	} programs[] = {
		{"copy_list", copy_list}, {"copy_ends", copy_ends},   {"settle", settle},
		{"finish", finish},       {"copy_state", copy_state}, {"copy_blocks", copy_blocks},
		{"recheck", recheck},
	};

	(void)s;
	(void)size;
	pass_time(CALL_NS);
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		if (!strcmp(programs[i].name, name))
			programs[i].program(context);
}

void snapshot_run(struct snapshot *s, const char *name)
{
	(void)s;
	if (!strcmp(name, "learn_buddy_type"))
		learn_buddy_type(NULL);
}

const struct freezer_cpu *freezer_cpus(const struct freezer *f, int *nr)
{
	(void)f;
	*nr = (int)sim.options.cpus;
	return sim.cpus;
}

const struct freezer_hold *freezer_holds(const struct freezer *f)
{
	(void)f;
	return sim.holds;
}

bool freezer_holds_all(const struct freezer *f)
{
	(void)f;
	return true;
}

static void be(int nr, uint64_t now_ns)
{
	sim.cpu = (uint32_t)sim.cpus[nr].cpu;
	sim.tid = (uint32_t)sim.cpus[nr].tid;
	sim.now_ns = now_ns;
}

static void hold_until(int hold, uint64_t begin_ns)
{
	sim.holds[hold].ns = sim.holds[hold].ran_ns = sim.now_ns - begin_ns;
}

/* --- the truth --- */

static void copy_truth(uint32_t number, const struct list_head *head)
{
	struct list_copy *copy = &sim.truth[number];

	copy->nr = 0;
	for (const struct list_head *node = head->next; node != head; node = node->next)
		copy->nr++;
	free(copy->pfns);
	copy->pfns = malloc((copy->nr + 1) * sizeof(*copy->pfns));
	copy->nr = 0;
	for (const struct list_head *node = head->next; node != head; node = node->next)
		copy->pfns[copy->nr++] = pfn_at(node);
}

static void remember_truth(void)
{
	for (uint32_t z = 0; z < sim.options.zones; z++) {
		for (uint32_t l = 0; l < SNAPSHOT_MAX_LISTS; l++)
			if (list_head_of(false, l))
				copy_truth(snapshot_list_of_zone(z, l),
					   (void *)((uint8_t *)&sim.zones[z] +
						    list_head_of(false, l)));
		for (uint32_t cpu = 0; cpu < sim.options.cpus; cpu++)
			for (uint32_t l = 0; l < 14; l++)
				copy_truth(snapshot_list_of_pcp(sim.options.zones,
								z * sim.options.cpus + cpu, l),
					   &pcp_at(z, cpu)->lists[l]);
	}
	memcpy(sim.true_types, sim.block_types,
	       sim.options.zones * (sim.options.pages >> BLOCK_ORDER));
}

/* All CPUs run at the same time: each one's part begins at the same moment. */
bool freezer_meet(struct freezer *f, int leader, const struct freezer_meeting *meeting)
{
	uint64_t moment = sim.now_ns + LEAD_NS + sim.options.cpus * MORE_LEAD_NS +
			  (uint64_t)meeting->rounds * meeting->round_ns;
	uint64_t begin, end, arrived;
	int nr = (int)sim.options.cpus;
	bool on = true;

	(void)f;
	memset(sim.holds, 0, FREEZER_HOLDS * (size_t)nr * sizeof(*sim.holds));
	for (int round = meeting->rounds; round > 0; round--) {
		begin = moment - (uint64_t)round * meeting->round_ns;
		pass_time(begin > sim.now_ns ? begin - sim.now_ns : 0);
		begin = end = sim.now_ns;
		for (int i = nr - 1; i >= 0; i--) {
			be(i, begin);
			on &= meeting->prepare(meeting->arg, i, round);
			hold_until(FREEZER_HOLDS * i + round, begin);
			end = sim.now_ns > end ? sim.now_ns : end;
		}
		be(leader, end);
	}
	pass_time(sim.now_ns < moment ? moment - sim.now_ns : 0);
	if (sim.options.apart) {
		sim.options.apart--;
		return false;
	}
	if (!on)
		return false;
	sim.busy = true;
	report();
	sim.busy = false;
	sim.held = true;
	if (sim.options.remember)
		remember_truth(); /* a cut without an allocation shows it */
	begin = sim.now_ns;
	arrived = end = begin + WAKE_NS;
	for (int i = 0; i < nr; i++) {
		be(i, begin + WAKE_NS);
		meeting->arrive(meeting->arg, i);
		arrived = sim.now_ns > arrived ? sim.now_ns : arrived;
	}
	for (int i = nr - 1; i >= 0; i--) {
		be(i, arrived);
		if (i == leader)
			meeting->cut(meeting->arg);
		meeting->beside(meeting->arg, i);
		end = sim.now_ns > end ? sim.now_ns : end;
	}
	for (int i = 0; i < nr; i++) {
		be(i, end);
		meeting->leave(meeting->arg, i);
		arrived = sim.now_ns > arrived ? sim.now_ns : arrived;
	}
	be(leader, arrived);
	for (int i = 0; i < nr; i++)
		hold_until(FREEZER_HOLDS * i, begin);
	sim.held = false;
	return sim.now_ns - begin <= meeting->limit_ns + WAKE_NS;
}

/* --- the cut --- */

/* The allocation of the cut, and its free. */
ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	uint32_t z = sim.options.zones - 1;
	uint64_t pfn = 0;

	(void)path;
	(void)name;
	(void)value;
	(void)size;
	sim.busy = true;
	for (uint32_t type = 0; type < PCP_TYPES && !pfn && !sim.options.unmarked; type++)
		pfn = alloc_block(&sim.zones[z], TRIGGER_ORDER, type);
	if (pfn) {
		if (sim.options.remember)
			remember_truth();
		sim.zones[z].lock.rlock.unused = 1;
		fire_now(cut_precopied, pfn, TRIGGER_ORDER);
		sim.zones[z].lock.rlock.unused = 0;
		fire_now(touch_freed, pfn, TRIGGER_ORDER);
		free_block(pfn, TRIGGER_ORDER);
	}
	sim.busy = false;
	errno = ENODATA;
	return -1;
}

static bool same_list(uint32_t number, const uint64_t *pfns, uint64_t nr)
{
	return sim.truth[number].nr == nr &&
	       (!nr || !memcmp(sim.truth[number].pfns, pfns, nr * sizeof(*pfns)));
}

static const struct batch *rows_of(const struct snapshot_result *result, const char *table)
{
	for (int t = 0; t < SNAPSHOT_TABLES; t++)
		if (!strcmp(result->tables[t]->table->name, table))
			return result->tables[t];
	return NULL;
}

static bool free_blocks_are_true(const struct snapshot_result *result)
{
	const struct batch *rows = rows_of(result, "free_block");
	const struct free_block_columns *row = (void *)rows->slots;
	uint64_t at = 0;

	/* Rows come zone by zone, and there list by list. */
	for (uint32_t z = 0; z < sim.options.zones; z++)
		for (uint32_t l = 0; l < SNAPSHOT_MAX_LISTS; l++) {
			uint64_t nr = sim.truth[snapshot_list_of_zone(z, l)].nr;

			if (at + nr > rows->nr ||
			    !same_list(snapshot_list_of_zone(z, l), row->pfn + at, nr))
				return false;
			for (uint64_t i = at; i < at + nr; i++)
				if (row->page_order[i] != l / SNAPSHOT_MAX_TYPES)
					return false;
			at += nr;
		}
	return at == rows->nr;
}

static bool pcp_pages_are_true(const struct snapshot_result *result)
{
	const struct batch *rows = rows_of(result, "pcp_page");
	const struct pcp_page_columns *row = (void *)rows->slots;
	uint64_t at = 0;

	for (uint32_t pcp = 0; pcp < sim.options.zones * sim.options.cpus; pcp++)
		for (uint32_t l = 0; l < 14; l++) {
			uint32_t number = snapshot_list_of_pcp(sim.options.zones, pcp, l);
			uint64_t nr = sim.truth[number].nr;

			if (at + nr > rows->nr || !same_list(number, row->pfn + at, nr))
				return false;
			at += nr;
		}
	return at == rows->nr;
}

bool sim_shows_the_truth(const struct snapshot_result *result)
{
	const struct batch *blocks = rows_of(result, "pageblock");
	const struct pageblock_columns *block = (void *)blocks->slots;

	for (size_t i = 0; i < blocks->nr; i++) {
		uint8_t type = sim.true_types[(block->pfn[i] - FIRST_PFN) >> BLOCK_ORDER];

		if (block->migratetype[i] == type)
			continue;
		printf("# pageblock %#llx: type %d, was %d\n", (unsigned long long)block->pfn[i],
		       block->migratetype[i], type);
		return false;
	}
	return free_blocks_are_true(result) && pcp_pages_are_true(result);
}

uint64_t sim_changes(void)
{
	return sim.changes;
}

/* --- the machine --- */

static void *zeroed(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

static void *make_map(const void *map, size_t size, size_t room, enum map_nr nr)
{
	size = (size + 7) / 8 * 8;
	sim.maps[sim.nr_maps] = (struct map_memory){map, zeroed(size * room), size, room};
	if (nr < NR_MAPS)
		sim.snapshot.maps[nr] = (struct mapping){sim.maps[sim.nr_maps].memory, size * room};
	return sim.maps[sim.nr_maps++].memory;
}

static void make_lists(struct list_head *heads, int nr)
{
	for (int i = 0; i < nr; i++)
		heads[i].next = heads[i].prev = &heads[i];
}

/* Free blocks of all sizes, each beside a used page so that they do not merge. */
static void fill_zone(uint32_t z)
{
	uint64_t first = FIRST_PFN + z * sim.options.pages, at = first;
	uint64_t end = first + sim.options.pages, left = sim.options.free_blocks;

	for (uint64_t pfn = first; pfn < end; pfn += 1 << BLOCK_ORDER)
		set_block_type(pfn, random_below(4) ? MIGRATE_MOVABLE
						    : (uint8_t)random_below(PCP_TYPES));
	for (; left && at + 64 < end; at += 64)
		for (uint32_t order = 0; order < 5 && left; order++, left--)
			add_block(at + (2ull << order), order, random_below(2));
	/* The rest is large and whole, up to a limit. */
	at = (at + (2 << TOP_ORDER)) >> TOP_ORDER << TOP_ORDER;
	for (int i = 0; i < 64 && at + (1 << TOP_ORDER) <= end; i++, at += 1 << TOP_ORDER) {
		set_block_type(at + (1 << BLOCK_ORDER), *block_type(at));
		add_block(at, TOP_ORDER, false);
	}
	for (uint32_t cpu = 0; cpu < sim.options.cpus; cpu++)
		refill(pcp_at(z, cpu), &sim.zones[z], 0, MIGRATE_MOVABLE);
	for (uint32_t cpu = 0; cpu < sim.options.cpus; cpu++)
		while ((uint32_t)pcp_at(z, cpu)->count < sim.options.pcp_pages) {
			int before = pcp_at(z, cpu)->count;

			refill(pcp_at(z, cpu), &sim.zones[z], 0, MIGRATE_MOVABLE);
			if (pcp_at(z, cpu)->count == before)
				break;
		}
}

static void make_sections(void)
{
	uint64_t last = (FIRST_PFN + sim.options.zones * sim.options.pages) >> SECTION_SHIFT;
	const uint64_t per_root = PAGE_SIZE / sizeof(struct mem_section);

	sim.sections = zeroed((last + per_root) * sizeof(*sim.sections));
	sim.usage = zeroed(last * (sizeof(unsigned long) + 64));
	sim.roots = zeroed((last / per_root + 1) * sizeof(*sim.roots));
	for (uint64_t i = 0; i <= last / per_root; i++)
		sim.roots[i] = sim.sections + i * per_root;
	for (uint64_t i = FIRST_PFN >> SECTION_SHIFT; i < last; i++) {
		sim.sections[i].section_mem_map = 1ul << 20; /* any memory map */
		sim.sections[i].usage = (void *)((uint8_t *)sim.usage + i * 72);
	}
	control.mem_section = (__u64)sim.roots;
}

static void describe(void)
{
	struct kernel_layout *l = &control.layout;

	describe_kernel(l);
	l->MIGRATE_PCPTYPES_ = PCP_TYPES;
	l->PB_migrate_isolate_ = 4;
	l->NR_PAGEBLOCK_BITS_ = -1;
	l->__NR_PAGEBLOCK_BITS_ = 5;
	control.nr_cpus = sim.options.cpus;
	control.nr_zones = sim.options.zones;
	control.section_shift = SECTION_SHIFT;
	control.section_bytes = 1 << (SECTION_SHIFT - BLOCK_ORDER);
	control.block_bits = 8;
	control.pageblock_order = BLOCK_ORDER;
	control.thp_order = BLOCK_ORDER;
	control.vmemmap = (__u64)sim.pages - FIRST_PFN * sizeof(struct page);
	for (uint32_t z = 0; z < SNAPSHOT_MAX_ZONES_PER_NODE; z++)
		strcpy(control.zone_name[z], "Normal");
}

static void make_maps(void)
{
	const struct sim_options *o = &sim.options;
	uint32_t nr_sections = (uint32_t)(o->zones * o->pages >> SECTION_SHIFT);
	uint64_t entries = o->zones * (o->free_blocks + o->cpus * (uint64_t)o->pcp_pages);
	uint64_t lists = o->zones * (SNAPSHOT_MAX_LISTS + o->cpus * SNAPSHOT_MAX_PCP_LISTS);
	uint64_t *first, *offset;
	struct zone_place *place;

	place = make_map(&places, sizeof(*place), o->zones, PLACES);
	make_map(&zones, sizeof(struct zone_image), o->zones, ZONES);
	make_map(&pcps, sizeof(struct pcp_image), o->zones * o->cpus, PCPS);
	make_map(&sections, sizeof(struct section_image), nr_sections, SECTIONS);
	control.max_nodes = o->max_entries ? o->max_entries : 3 * entries + (1 << 20);
	make_map(&nodes, sizeof(__u64), control.max_nodes, NODES);
	make_map(&page_bits, sizeof(struct page_bits), nr_sections * 512ull, PAGE_BITS);
	first = make_map(&section_bits, sizeof(__u64), (FIRST_PFN >> SECTION_SHIFT) + nr_sections,
			 SECTION_BITS);
	control.max_touches = entries / 4 + (1 << 18);
	make_map(&touches, sizeof(struct touch), control.max_touches, TOUCHES);
	control.max_claims = 1 << 14;
	make_map(&claims, sizeof(struct claim), control.max_claims, CLAIMS);
	control.max_segments = 8 * lists + (1 << 14);
	make_map(&segments, sizeof(struct segment), control.max_segments, SEGMENTS);
	make_map(&last_zones, sizeof(struct last_zone), NR_LAST * o->cpus, NR_MAPS);
	offset = make_map(&percpu_offset, sizeof(__u64), o->cpus, NR_MAPS);
	for (uint32_t i = 0; i < (FIRST_PFN >> SECTION_SHIFT) + nr_sections; i++)
		first[i] = i < FIRST_PFN >> SECTION_SHIFT
				   ? SNAPSHOT_NO_SECTION
				   : (i - (FIRST_PFN >> SECTION_SHIFT)) * 512ull;
	for (uint32_t cpu = 0; cpu < o->cpus; cpu++)
		offset[cpu] = cpu * sizeof(struct per_cpu_pages);
	for (uint32_t z = 0; z < o->zones; z++)
		place[z] = (struct zone_place){
			.address = (__u64)&sim.zones[z],
			.pcp = (__u64)pcp_at(z, 0),
			.stat = (__u64)(sim.stats + z * o->cpus * sizeof(struct per_cpu_pages)),
			.start_pfn = FIRST_PFN + z * o->pages,
			.spanned = o->pages,
			.first_deferred_pfn = ~0ull,
			.free_blocks =
				o->free_blocks + z, /* the last one is the best for the cut */
			.first_section = (uint32_t)(z * o->pages >> SECTION_SHIFT),
			.nr_sections = (uint32_t)(o->pages >> SECTION_SHIFT),
		};
}

static void make_snapshot(void)
{
	struct snapshot *s = &sim.snapshot;
	const struct sim_options *o = &sim.options;

	s->control = &control;
	s->max_ns = o->max_us * 1000ull;
	s->zones = calloc(o->zones, sizeof(*s->zones));
	s->online = malloc(o->cpus);
	memset(s->online, 1, o->cpus);
	s->holds = calloc(SNAPSHOT_MAX_HOLDS, sizeof(*s->holds));
	s->locks = calloc(SNAPSHOT_MAX_HOLDS, sizeof(*s->locks));
	s->images = (struct snapshot_images){
		.control = &control,
		.places = s->maps[PLACES].memory,
		.zones = s->maps[ZONES].memory,
		.pcps = s->maps[PCPS].memory,
		.sections = s->maps[SECTIONS].memory,
		.nodes = s->maps[NODES].memory,
		.online = s->online,
		.pageblock_order = BLOCK_ORDER,
		.thp_order = BLOCK_ORDER,
	};
}

struct snapshot *sim_new(const struct sim_options *options)
{
	uint64_t pages = options->zones * options->pages;

	memset(&sim, 0, sizeof(sim));
	memset(&control, 0, sizeof(control));
	sim.options = *options;
	sim.random = options->seed * 0x9e3779b97f4a7c15 + 1;
	sim.busy = true;
	sim.pages_size = (pages + 2) * sizeof(struct page);
	sim.pages = zeroed(sim.pages_size);
	sim.orders = zeroed(pages);
	sim.in_pcp = zeroed(pages);
	sim.block_types = zeroed(pages >> BLOCK_ORDER);
	sim.true_types = zeroed(pages >> BLOCK_ORDER);
	sim.zones = calloc(options->zones, sizeof(*sim.zones));
	sim.pcps = calloc(options->zones * options->cpus, sizeof(*sim.pcps));
	sim.stats = calloc(options->zones * options->cpus, sizeof(*sim.pcps));
	sim.cpus = calloc(options->cpus, sizeof(*sim.cpus));
	sim.holds = calloc(FREEZER_HOLDS * options->cpus, sizeof(*sim.holds));
	sim.truth = calloc(options->zones *
				   (SNAPSHOT_MAX_LISTS + options->cpus * SNAPSHOT_MAX_PCP_LISTS),
			   sizeof(*sim.truth));
	for (uint32_t cpu = 0; cpu < options->cpus; cpu++)
		sim.cpus[cpu] = (struct freezer_cpu){.cpu = (int)cpu, .tid = 1000 + (int)cpu};
	describe();
	make_maps();
	make_sections();
	for (uint32_t z = 0; z < options->zones; z++) {
		for (int order = 0; order <= TOP_ORDER; order++)
			make_lists(sim.zones[z].free_area[order].free_list, 6);
		for (uint32_t cpu = 0; cpu < options->cpus; cpu++)
			make_lists(pcp_at(z, cpu)->lists, 14);
		sim.zones[z].zone_start_pfn = FIRST_PFN + z * options->pages;
		sim.zones[z].spanned_pages = options->pages;
		fill_zone(z);
	}
	make_snapshot();
	sim.busy = false;
	return &sim.snapshot;
}

void sim_free(void)
{
	uint64_t pages = sim.options.zones * sim.options.pages;

	for (uint32_t i = 0; i < sim.options.zones * (SNAPSHOT_MAX_LISTS +
						      sim.options.cpus * SNAPSHOT_MAX_PCP_LISTS);
	     i++)
		free(sim.truth[i].pfns);
	for (int m = 0; m < sim.nr_maps; m++)
		munmap(sim.maps[m].memory, sim.maps[m].size * sim.maps[m].room);
	munmap(sim.pages, sim.pages_size);
	munmap(sim.orders, pages);
	munmap(sim.in_pcp, pages);
	munmap(sim.block_types, pages >> BLOCK_ORDER);
	munmap(sim.true_types, pages >> BLOCK_ORDER);
	free(sim.zones);
	free(sim.pcps);
	free(sim.stats);
	free(sim.cpus);
	free(sim.holds);
	free(sim.truth);
	free(sim.used);
	free(sim.snapshot.zones);
	free(sim.snapshot.online);
	free(sim.snapshot.holds);
	free(sim.snapshot.locks);
	free(sim.snapshot.joined.nodes);
}
