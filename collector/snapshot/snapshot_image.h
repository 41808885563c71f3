/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * snapshot_image.h - the memory shared by snapshot.bpf.c and snapshot.c.
 *
 * The programs copy whole kernel structs and follow lists; user space interprets them.
 * struct kernel_layout has the offsets of fields in the running kernel. Every struct here is
 * the value of an mmap()ed array map of the same name.
 */
#pragma once

#include <linux/types.h>

enum { PAGE_SIZE = 4096 }; /* snapshot_load.c refuses any other */

enum {
	SNAPSHOT_MAX_ZONES_PER_NODE = 8, /* MAX_NR_ZONES is at most 6 */
	SNAPSHOT_MAX_ZONES = 320,        /* 64 nodes */
	SNAPSHOT_MAX_LISTS = 128,        /* lists of a zone: orders * types */
	SNAPSHOT_MAX_TYPES = 8,          /* MIGRATE_TYPES is at most 6 */
	SNAPSHOT_MAX_ORDERS = 16,        /* NR_PAGE_ORDERS is at most 14 */
	SNAPSHOT_MAX_PCP_LISTS = 16,     /* NR_PCP_LISTS is at most 14 */
	SNAPSHOT_MAX_ZONE_SIZE = 4096,   /* sizeof(struct zone) */
	SNAPSHOT_MAX_PCP_SIZE = 512,     /* sizeof(struct per_cpu_pages) */
	SNAPSHOT_MAX_STAT_SIZE = 128,    /* sizeof(struct per_cpu_zonestat) */
	SNAPSHOT_MAX_BITS = 512,         /* bytes of pageblock bits of a section */
	SNAPSHOT_VMCOREINFO_SIZE = 4132, /* note header, "VMCOREINFO", one page */
	SNAPSHOT_PAGE_BYTES = 64,        /* of struct page: its links, order and type lie in them */
	SNAPSHOT_NO_SECTION = 0xffffffff,
	NR_LAST = 2, /* entries of the map last_zones for each CPU */
};

/* Where a field lies in its struct. Size 0: this kernel has no such field. */
struct kernel_field {
	__u16 offset, size;
};

#define SNAPSHOT_ZONE_FIELDS(X)                                                                    \
	X(_watermark)                                                                              \
	X(watermark_boost)                                                                         \
	X(nr_reserved_highatomic)                                                                  \
	X(nr_free_highatomic)                                                                      \
	X(lowmem_reserve)                                                                          \
	X(zone_start_pfn)                                                                          \
	X(managed_pages)                                                                           \
	X(spanned_pages)                                                                           \
	X(present_pages)                                                                           \
	X(free_area)                                                                               \
	X(flags)                                                                                   \
	X(lock)                                                                                    \
	X(vm_stat)

#define SNAPSHOT_PCP_FIELDS(X)                                                                     \
	X(lock)                                                                                    \
	X(count)                                                                                   \
	X(high)                                                                                    \
	X(high_min)                                                                                \
	X(high_max)                                                                                \
	X(batch)                                                                                   \
	X(flags)                                                                                   \
	X(alloc_factor)                                                                            \
	X(free_factor)                                                                             \
	X(free_count)                                                                              \
	X(expire)                                                                                  \
	X(lists)

/* Enumerators that move between kernels and configurations; -1: this kernel has none. */
#define SNAPSHOT_ENUMERATORS(X)                                                                    \
	X(migratetype, MIGRATE_UNMOVABLE)                                                          \
	X(migratetype, MIGRATE_MOVABLE)                                                            \
	X(migratetype, MIGRATE_RECLAIMABLE)                                                        \
	X(migratetype, MIGRATE_HIGHATOMIC)                                                         \
	X(migratetype, MIGRATE_CMA)                                                                \
	X(migratetype, MIGRATE_ISOLATE)                                                            \
	X(migratetype, MIGRATE_PCPTYPES)                                                           \
	X(zone_flags, ZONE_BOOSTED_WATERMARK)                                                      \
	X(zone_flags, ZONE_RECLAIM_ACTIVE)                                                         \
	X(zone_flags, ZONE_BELOW_HIGH)                                                             \
	X(zone_stat_item, NR_FREE_PAGES)                                                           \
	X(zone_stat_item, NR_FREE_CMA_PAGES)                                                       \
	X(pageblock_bits, PB_migrate_isolate)                                                      \
	X(pageblock_bits, NR_PAGEBLOCK_BITS)                                                       \
	X(pageblock_bits, __NR_PAGEBLOCK_BITS)

struct kernel_layout {
	__u32 zone_size, page_size, pcp_size, zonestat_size;
	__u32 zones_per_node;
	__u32 page_lru;
	__u32 free_area_size; /* of one order */
	__u32 sleeping_locks; /* PREEMPT_RT: who waits for a zone's lock sleeps */
	struct kernel_field free_list, nr_free;
	struct kernel_field vm_stat_diff, stat_threshold;
#define SNAPSHOT_FIELD(name) struct kernel_field name;
	struct {
		SNAPSHOT_ZONE_FIELDS(SNAPSHOT_FIELD)
	} zone;
	struct {
		SNAPSHOT_PCP_FIELDS(SNAPSHOT_FIELD)
	} pcp;
#undef SNAPSHOT_FIELD
#define SNAPSHOT_ENUMERATOR(type, name) __s32 name##_;
	SNAPSHOT_ENUMERATORS(SNAPSHOT_ENUMERATOR)
#undef SNAPSHOT_ENUMERATOR
};

enum walk_end {
	WALK_NOT,    /* not walked */
	WALK_WHOLE,  /* reached the list's head again */
	WALK_ASTRAY, /* more entries than the counter allows, or an unreadable one */
	WALK_LATE,   /* the allowed time was used up */
	WALK_FULL,   /* no room in `nodes` */
	WALK_KNOWN,  /* reached an entry that the image has, and that no event touched since */
};

/* One walked list: its entries are nodes[first .. first + nr), head first. */
struct list_image {
	__u32 first, nr;
};

/*
 * One zone. `before` and `after` are copies of struct zone at the begin and end of the meeting;
 * `list` is indexed by order * SNAPSHOT_MAX_TYPES + migratetype.
 */
struct zone_image {
	__u8 before[SNAPSHOT_MAX_ZONE_SIZE];
	__u8 after[SNAPSHOT_MAX_ZONE_SIZE];
	struct list_image list[SNAPSHOT_MAX_LISTS];
};

/* One (zone, cpu), at index zone * nr_cpus + cpu. */
struct pcp_image {
	__u8 before[SNAPSHOT_MAX_PCP_SIZE];
	__u8 after[SNAPSHOT_MAX_PCP_SIZE];
	__u8 stat[SNAPSHOT_MAX_STAT_SIZE]; /* struct per_cpu_zonestat, with `before` */
	struct list_image list[SNAPSHOT_MAX_PCP_LISTS];
};

/* Pageblock bits of one memory section, before and after the meeting. */
struct section_image {
	__u64 mem_map; /* section_mem_map without its flags, 0 for a hole */
	__u8 before[SNAPSHOT_MAX_BITS];
	__u8 after[SNAPSHOT_MAX_BITS];
};

/*
 * The image of a precopied snapshot, and what may have changed since, by page: 64 pages in one
 * element, a bit each. `touched` has two sets, which take turns: see snapshot_precopy.bpf.h.
 */
struct page_bits {
	__u64 in_image; /* on a free list */
	__u64 in_pcp;   /* on a list of a PCP */
	__u64 touched[2];
};

enum { TOUCH_AGAIN = 1 }; /* the event comes before the change: do not settle it at once */

/* One touched page of the image. */
struct touch {
	__u64 pfn;
	__u32 flags; /* TOUCH_AGAIN */
	__u32 state; /* at the cut: 1 + order of the free block that starts there; 0: none does */
};

/* Pageblocks whose type an allocation changed. */
struct claim {
	__u64 pfn;         /* first page of the pageblock */
	__u32 zone_at_cut; /* 1 + index of the zone that was at its cut when `bits` was read; 0:
			      none */
	__u32 bits;        /* the pageblock's bits at the cut */
};

/* Entries of one list in a row, first visited first: nodes[first .. first + nr). */
struct segment {
	__u32 list; /* snapshot_list_of_zone(), snapshot_list_of_pcp() */
	__u32 first, nr;
	__u16 end;     /* enum walk_end */
	__u8 backward; /* from the tail of the list */
	__u8 at_cut;   /* nothing could change any more */
	__u64 known;   /* with WALK_KNOWN: that entry, and the one after it in walking direction */
	__u64 beyond;
};

static inline __u32 snapshot_list_of_zone(__u32 zone, __u32 list)
{
	return zone * SNAPSHOT_MAX_LISTS + list;
}

static inline __u32 snapshot_list_of_pcp(__u32 nr_zones, __u32 pcp, __u32 list)
{
	return nr_zones * SNAPSHOT_MAX_LISTS + pcp * SNAPSHOT_MAX_PCP_LISTS + list;
}

/* Context of the programs of a precopied snapshot. */
struct precopy_args {
	__u32 zone; /* index in `places` */
	__u32 cpu;  /* of the PCP */
	__u32 list; /* index in the image's `list`: of copy_list; where copy_ends goes on */
	__u32 is_pcp;
	__u32 strict; /* nothing else runs: any contradiction ends the walk */
	__u32 after;  /* which copy of the pair */
	__u64 deadline_ns;

	__u32 first, used; /* copy_list: where it goes on; copy_ends: `used` is the most entries;
			      settle: `first` is the end of the touches to look at */
	__u32 backs;
	__u32 end; /* result, enum walk_end: WALK_WHOLE if all lists are done */
};

struct zone_place {
	__u64 address;   /* of the struct zone */
	__u64 pcp, stat; /* per-cpu pointers */
	__u64 start_pfn, spanned;
	__u64 first_deferred_pfn; /* of the node: struct pages from here on are not initialised */
	__u64 free_blocks;        /* when the zones were listed */
	__u32 node, index;        /* index in pgdat->node_zones */
	__u32 number;             /* of the zone on a tape; set by user space */
	__u32 first_section, nr_sections; /* its section_images */
	__u64 settled; /* entries of `touches` before this one need no look any more for this zone
			*/
};

struct control {
	/* Set by user space before the first program. */
	__u32 nr_cpus; /* possible ones */
	__u64 vmcoreinfo_paddr;

	/* find_vmcoreinfo */
	__u64 task;       /* address of a task_struct, in the direct map */
	__u64 direct_map; /* virtual minus physical address; 0: the note was not found */
	__u8 vmcoreinfo[SNAPSHOT_VMCOREINFO_SIZE];

	/* Set by user space from the note. */
	__u64 node_data;        /* address of the array of pgdat pointers, or ... */
	__u64 contig_page_data; /* ... of the only pgdat */
	__u32 nr_nodes;         /* length of node_data */
	__u64 mem_section;      /* address of the array of section roots */
	__u32 section_shift;    /* log2 of the pages of a section */
	__u32 section_bytes;    /* of its pageblock bits */

	/* find_zones */
	struct kernel_layout layout;
	__u32 nr_zones;                                  /* of `places` */
	char zone_name[SNAPSHOT_MAX_ZONES_PER_NODE][16]; /* by index in pgdat->node_zones */
	__u64 pcp_pages;
	__u64 vmemmap; /* address of the struct page of pfn 0 */

	/* cut_precopied: armed by user space, disarmed by the program. */
	__u32 armed_tid;   /* thread whose allocation is the cut; 0: none */
	__u32 armed_order; /* order of that allocation */
	__u64 max_ns;      /* limit on the hold of the zone lock */
	__u64 cut_ns, cut_end_ns;
	__u64 cut_pfn; /* of the page whose allocation was the cut */
	__u32 cut_cpu;
	__u32 cut_zone; /* index of the zone whose lock was held; nr_zones or more: none */

	__u64 deadline_ns; /* stop at this time */

	/* Set by user space: */
	__u64 max_nodes, max_touches, max_claims, max_segments; /* sizes of the maps */
	__u32 block_bits;                                       /* of each pageblock */
	__u32 thp_order;                                        /* that PCPs hold; 0: none */
	__u32 pageblock_order;
	__u32 epoch;         /* bit 0: the set of page_bits.touched that events use */
	__u64 touches_until; /* settle: up to this entry of `touches` */
	__u64 claims_from;   /* nr_claims before the first copies of the pageblocks' bits */
	/* Set by the programs: */
	__u64 nr_nodes_used;                      /* entries of `nodes` in use */
	__u64 nr_touches, nr_claims, nr_segments; /* may exceed the maps: then some are lost */
	__u64 cut_touches;                        /* nr_touches and nr_claims at the cut */
	__u64 cut_claims;
	__u32 buddy_type; /* page_type of a free block's first page */
	__u32 buddy_votes;
	__u32 page_fields; /* 0: struct page has not the fields that a precopied snapshot needs */
	__u32 cut_end;     /* enum walk_end, of the lists walked at the cut */
};

/* The constants of printed.bpf.c, in the section .rodata.constants. */
struct printed_constants {
	__u64 listed;              /* bit n: order n has a per-CPU list */
	__u64 vmemmap;             /* as in struct control */
	__u32 nr_zones, thp_order; /* as in struct control */
	__u32 token;               /* printed_text.h */
};
