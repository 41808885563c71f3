// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "decode/decode.h"
#include "tables.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMON                                                                                     \
	"format:\n"                                                                                \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"             \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

#define FIELD(declaration, offset, size, is_signed)                                                \
	"\tfield:" declaration ";\toffset:" #offset ";\tsize:" #size ";\tsigned:" #is_signed ";\n"

#define PFN_ORDER FIELD("unsigned long pfn", 8, 8, 0) FIELD("unsigned int order", 16, 4, 0)

static const char alloc_6_18[] = "name: mm_page_alloc\nID: 10\n" COMMON PFN_ORDER FIELD(
	"unsigned long gfp_flags", 24, 8, 0)
	FIELD("int migratetype", 32, 4,
	      1) "\nprint fmt: \"%s\", (REC->gfp_flags) ? __print_flags(REC->gfp_flags, \"|\", "
		 "{( unsigned long)((( gfp_t)((((1UL))) << (6))) | (( gfp_t)((((1UL))) << (7)))), "
		 "\"GFP_NOSUCH\"}, {( unsigned long)(( gfp_t)((((1UL))) << (0))), \"GFP_DMA\"}, "
		 "{( unsigned long)(( gfp_t)((((1UL))) << (5))), \"GFP_ATOMIC\"}, "
		 "{( unsigned long)(( gfp_t)((((1UL))) << (5))), \"__GFP_HIGH\"}, "
		 "{( unsigned long)(( gfp_t)((((1UL))) << (7))), \"__GFP_FS\"}, "
		 "{( unsigned long)0x40u, \"__GFP_IO\"}, "
		 "{( unsigned long)(( gfp_t)((((1UL))) << (24))), \"__GFP_NO_OBJ_EXT\"}) : "
		 "\"none\"\n";
static const char free_6_18[] =
	"name: mm_page_free\nID: 11\n" COMMON PFN_ORDER "\nprint fmt: \"%lu\", REC->pfn\n";
static const char locked_5_10[] =
	"name: mm_page_alloc_zone_locked\nID: 12\n" COMMON PFN_ORDER FIELD(
		"int migratetype", 20, 4, 1) "\nprint fmt: \"%lu\", REC->pfn\n";
static const char locked_6_18[] =
	"name: mm_page_alloc_zone_locked\nID: 13\n" COMMON PFN_ORDER FIELD("int migratetype", 20, 4,
									   1)
		FIELD("int percpu_refill", 24, 4, 1) "\nprint fmt: \"%lu\", REC->pfn\n";
static const char finished[] = "name: mm_compaction_finished\nID: 14\n" COMMON FIELD(
	"int nid", 8, 4, 1) FIELD("enum zone_type idx", 12, 4, 0) FIELD("int order", 16, 4, 1)
	FIELD("int ret", 20, 4,
	      1) "\nprint fmt: \"%s\", __print_symbolic(REC->idx, {0, \"DMA\"}, {1, \"Normal\"}, "
		 "{2, \"HighMem\"}, {3, \"Movable\"})\n";
static const char wmarks[] = "name: mm_setup_per_zone_wmarks\nID: 15\n" COMMON FIELD(
	"int node_id", 8, 4, 1) FIELD("__data_loc char[] name", 12, 4, 0)
	FIELD("unsigned long watermark_min", 16, 8, 0) "\nprint fmt: \"%d\", REC->node_id\n";
static const char work[] =
	"name: workqueue_execute_start\nID: 16\n" COMMON FIELD("void * work", 8, 8, 0)
		FIELD("void * function", 16, 8, 0) "\nprint fmt: \"%p\", REC->function\n";
static const char pages_2_6_32[] = "name: mm_page_free\nID: 17\n" COMMON FIELD(
	"struct page * page", 8, 8, 0) "\nprint fmt: \"%p\", REC->page\n";
static const char other[] =
	"name: rss_stat\nID: 18\n" COMMON FIELD("long size", 8, 8, 1) "\nprint fmt: \"%ld\", "
								      "REC->size\n";

static const char printed[] = "name: bpf_trace_printk\nID: 19\n" COMMON FIELD(
	"__data_loc char[] bpf_string", 8, 4, 0) "\nprint fmt: \"%s\", "
						 "__get_str(bpf_string)\n";

/* Of 5.10, 6.1 and 7.3: the events of contiguous memory differ. */
#define CMA_PAGE(offset) FIELD("const struct page * page", offset, 8, 0)
static const char cma_5_10[] =
	"name: cma_alloc\nID: 20\n" COMMON FIELD("unsigned long pfn", 8, 8, 0) CMA_PAGE(16)
		FIELD("unsigned int count", 24, 4, 0)
			FIELD("unsigned int align", 28, 4, 0) "\nprint fmt: \"%lx\", REC->pfn\n";
static const char cma_6_1[] =
	"name: cma_alloc_finish\nID: 21\n" COMMON FIELD("__data_loc char[] name", 8, 4, 1) FIELD(
		"unsigned long pfn", 16, 8, 0) CMA_PAGE(24) FIELD("unsigned long count", 32, 8, 0)
		FIELD("unsigned int align", 40, 4, 0) "\nprint fmt: \"%lx\", REC->pfn\n";
static const char cma_7_3[] =
	"name: cma_alloc_finish\nID: 21\n" COMMON FIELD("__data_loc char[] name", 8, 4, 1)
		FIELD("unsigned long pfn", 16, 8, 0) CMA_PAGE(24)
			FIELD("unsigned long count", 32, 8, 0) FIELD("unsigned int align", 40, 4, 0)
				FIELD("int errorno", 44, 4, 1) "\nprint fmt: \"%lx\", REC->pfn\n";
static const char cma_start_7_3[] = "name: cma_alloc_start\nID: 22\n" COMMON FIELD(
	"__data_loc char[] name", 8, 4, 1) FIELD("unsigned long request_count", 16, 8, 0)
	FIELD("unsigned long available_count", 24, 8, 0)
		FIELD("unsigned long total_count", 32, 8, 0)
			FIELD("unsigned int align", 40, 4, 0) "\nprint fmt: \"%lu\", "
							      "REC->request_count\n";
static const char isolated[] = "name: test_pages_isolated\nID: 23\n" COMMON FIELD(
	"unsigned long start_pfn", 8, 8, 0) FIELD("unsigned long end_pfn", 16, 8, 0)
	FIELD("unsigned long fin_pfn", 24, 8, 0) "\nprint fmt: \"%lx\", REC->start_pfn\n";

static const char kernel_stack[] = "name: kernel_stack\nID: 4\n" COMMON FIELD("int size", 8, 4, 1)
	FIELD("unsigned long caller[8]", 16, 64, 0) "\nprint fmt: \"%p\", (void *)REC->caller[0]\n";
static const char kernel_stack_2_6[] = "name: kernel_stack\nID: 4\n" COMMON FIELD(
	"unsigned long caller[8]", 8, 64, 0) "\nprint fmt: \"%p\", (void *)REC->caller[0]\n";

/* PREEMPT_RT before 6.13, and its older patches (trace_define_common_fields). */
#define COMMON_RT                                                                                  \
	"format:\n" FIELD("unsigned short common_type", 0, 2, 0)                                   \
		FIELD("unsigned char common_flags", 2, 1, 0)                                       \
			FIELD("unsigned char common_preempt_count", 3, 1, 0)                       \
				FIELD("int common_pid", 4, 4, 1)
#define PAGE_RT                                                                                    \
	"\n" FIELD("unsigned long pfn", 16, 8, 0)                                                  \
		FIELD("unsigned int order", 24, 4, 0) "\nprint fmt: \"%lu\", REC->pfn\n"

static const char free_rt[] = "name: mm_page_free\nID: 11\n" COMMON_RT FIELD(
	"unsigned char common_preempt_lazy_count", 8, 1, 0) PAGE_RT;
static const char free_old_rt[] = "name: mm_page_free\nID: 11\n" COMMON_RT FIELD(
	"unsigned short common_migrate_disable", 8, 2, 0)
	FIELD("unsigned short common_padding", 10, 2, 0) PAGE_RT;

static const char far_stack[] = "name: kernel_stack\nID: 4\n" COMMON FIELD("int size", 60000, 4, 1)
	FIELD("unsigned long caller[8]", 16, 64, 0) "\nprint fmt: \"%p\", REC->caller[0]\n";

/* A kernel that has one event of each system given: ("kmem", alloc, ..., NULL). */
static struct tep_handle *kernel_with(const char *system, ...)
{
	struct tep_handle *tep = tep_alloc();
	va_list more;

	tep_set_loglevel(TEP_LOG_NONE);
	tep_set_long_size(tep, 8);
	va_start(more, system);
	for (; system; system = va_arg(more, const char *)) {
		const char *format = va_arg(more, const char *);

		check(!tep_parse_event(tep, format, strlen(format), system));
	}
	va_end(more);
	return tep;
}

static struct decoder *decoder_for(struct tep_handle *tep, size_t rows)
{
	const struct decoder_names names = {0};
	struct error err = {""};
	struct decoder *d;

	check(!decoder_new(&d, tep, &names, rows, &err));
	check(d && !err.msg[0]);
	return d;
}

static void done(struct decoder *d, struct tep_handle *tep)
{
	decoder_free(d);
	tep_free(tep);
}

/* Records are laid out by hand, as the kernel does. */
struct alloc_record {
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t pid;
	uint64_t pfn;
	uint32_t order, pad;
	uint64_t gfp_flags;
	int32_t migratetype, tail;
};

struct page_record {
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t pid;
	uint64_t pfn;
	uint32_t order;
	int32_t migratetype, percpu_refill, tail;
};

static const struct event_columns *flush_events(struct decoder *d, size_t *nr)
{
	int ret;
	struct batch *batch = decoder_flush(d, true, &ret);

	check(batch && batch->table == &event_table && !ret);
	*nr = batch->nr;
	return (const struct event_columns *)batch->slots;
}

TEST(an_allocation_becomes_a_row)
{
	struct tep_handle *tep = kernel_with("kmem", alloc_6_18, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct alloc_record record = {
		.type = 10,
		.flags = 0x09,
		.preempt_count = 0x21,
		.pid = 77,
		.pfn = 0x123456789,
		.order = 3,
		.gfp_flags = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 24 | 1 << 30,
		.migratetype = 2,
	};
	const struct event_columns *row;
	size_t nr;

	check(decoder_add(d, 5, 1000, &record, sizeof(record)));
	row = flush_events(d, &nr);
	check(nr == 1 && row->ts[0] == 1000 && row->cpu[0] == 5 && row->pid[0] == 77);
	check(row->kind[0] == EVENT_KIND_ALLOC);
	check(row->flags[0] == (CONTEXT_IRQS_OFF | CONTEXT_HARDIRQ | CONTEXT_PREEMPT_OFF));
	check(row->pfn[0] == 0x123456789 && is_valid(row->pfn_valid, 0));
	check(row->page_order[0] == 3 && is_valid(row->page_order_valid, 0));
	check(row->migratetype[0] == MIGRATETYPE_RECLAIMABLE &&
	      is_valid(row->migratetype_valid, 0));
	check(row->gfp_flags[0] == (GFP_DMA | GFP_HIGH | GFP_IO | GFP_NO_OBJ_EXT));
	check(is_valid(row->gfp_flags_valid, 0));
	check(!is_valid(row->percpu_refill_valid, 0) && !is_valid(row->fallback_order_valid, 0));
	check(!strcmp(decoder_gfp_name(d, 5), "__GFP_HIGH") && !decoder_gfp_name(d, 30));
	done(d, tep);
}

TEST(a_failed_allocation_has_no_pfn)
{
	struct tep_handle *tep = kernel_with("kmem", alloc_6_18, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct alloc_record record = {.type = 10, .pfn = UINT64_MAX, .migratetype = 1};
	const struct event_columns *row;
	size_t nr;

	check(decoder_add(d, 0, 1, &record, sizeof(record)));
	row = flush_events(d, &nr);
	check(!is_valid(row->pfn_valid, 0) && row->pfn[0] == 0);
	check(is_valid(row->page_order_valid, 0));
	done(d, tep);
}

struct printed_record {
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t pid;
	uint16_t at, length;
	char text[200];
};

/* A text behind the common fields, with its NUL. */
static struct printed_record printed_text(const char *text)
{
	struct printed_record record = {.type = 19, .preempt_count = 1, .pid = 9, .at = 12};

	record.length = (uint16_t)strlen(text) + 1;
	memcpy(record.text, text, record.length);
	return record;
}

TEST(a_printed_free_is_a_row_and_other_texts_are_none)
{
	struct tep_handle *tep = kernel_with("bpf_trace", printed, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct printed_record ours = printed_text("pagetape 7f free 1f2e3d a.");
	struct printed_record others = printed_text("a text of another");
	struct printed_record beyond = printed_text("pagetape 7f free 1 4.");
	const struct event_columns *row;
	const struct decoder_count *counts;
	size_t nr;

	beyond.length = 400; /* than the record has */
	check(decoder_add(d, 3, 1, &others, sizeof(others)));
	check(decoder_add(d, 3, 2, &ours, sizeof(ours)));
	check(decoder_add(d, 3, 3, &beyond, sizeof(beyond)));
	row = flush_events(d, &nr);
	check(nr == 1 && row->ts[0] == 2 && row->cpu[0] == 3 && row->pid[0] == 9);
	check(row->kind[0] == EVENT_KIND_FREE && row->pfn[0] == 0x1f2e3d);
	check(row->page_order[0] == 10 && is_valid(row->page_order_valid, 0));
	/* The program ran with preemption off, not the task. */
	check(!row->flags[0] && !is_valid(row->migratetype_valid, 0));
	counts = decoder_counts(d, &nr);
	check(nr == 1 && counts[0].events == 1 && !strcmp(counts[0].name, "mm_page_free"));
	check(decoder_bad_records(d) == 1);
	done(d, tep);
}

static const struct stamp_columns *flush_stamps(struct decoder *d, size_t *nr)
{
	int ret;
	struct batch *batch = decoder_flush(d, true, &ret);

	check(batch && batch->table == &stamp_table && !ret);
	*nr = batch->nr;
	return (const struct stamp_columns *)batch->slots;
}

/* As Linux 6.18 prints a drain, and 6.1 a refill and a drain of another CPU's PCP. */
static const char stamp_6_18[] = "pagetape 7f stamp 60b00010201 2edb400033e64 276100052505 "
				 "3f00010502 ffffffffffff00fc 7000039b1 "
				 "4ec3000063d5.";
static const char stamp_6_1[] = "pagetape 7f stamp 500010100 500000009 0 3f00030000 100ff 0 0.";
static const char stamp_remote[] = "pagetape 7f stamp 20102 0 0 0 0 0 0.";

TEST(a_printed_stamp_is_a_row_of_its_own)
{
	struct tep_handle *tep = kernel_with("bpf_trace", printed, "kmem", free_6_18, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct printed_record first = printed_text(stamp_6_18), second = printed_text(stamp_6_1);
	struct printed_record third = printed_text(stamp_remote);
	struct page_record freed = {.type = 11};
	const struct stamp_columns *row;
	size_t nr;

	first.flags = 1;
	check(decoder_add(d, 3, 1, &first, sizeof(first)));
	check(decoder_add(d, 3, 2, &freed, 40));
	check(decoder_add(d, 2, 3, &second, sizeof(second)));
	check(decoder_add(d, 2, 4, &third, sizeof(third)));
	decoder_counts(d, &nr);
	check(nr == 1); /* the free: a stamp is no event */
	flush_events(d, &nr);
	check(nr == 1);
	row = flush_stamps(d, &nr);
	check(nr == 3 && row->ts[0] == 1 && row->cpu[0] == 3 && row->pid[0] == 9);
	check(row->flags[0] == CONTEXT_IRQS_OFF && row->at[0] == 0 && row->at[1] == 1);
	check(row->kind[0] == STAMP_KIND_DRAIN && row->zone[0] == ZONE_NORMAL && row->node[0] == 1);
	check(row->count[0] == 191924 && row->high[0] == 212580 && row->batch[0] == 63);
	check(row->high_min[0] == 10081 && row->high_max[0] == 337157);
	check(row->free_count[0] == 1 && row->alloc_factor[0] == 5 && row->pcp_flags[0] == 2);
	check(is_valid(row->alloc_factor_valid, 0) && !is_valid(row->free_factor_valid, 0));
	check(is_valid(row->below_high_valid, 0) && row->below_high[0] == 1);
	check(row->reclaim_active[0] == 1 && row->boosted_watermark[0] == 0);
	check(row->free[0] == -256 && row->vm_stat_diff[0] == -4);
	check(row->boost[0] == 7 && row->wmark_min[0] == 14769);
	check(row->wmark_low[0] == 20163 && row->wmark_high[0] == 25557);
	check(row->kind[1] == STAMP_KIND_REFILL && row->zone[1] == ZONE_DMA32);
	check(row->count[1] == 5 && row->high[1] == 9 && row->free_factor[1] == 3);
	check(is_valid(row->free_factor_valid, 1) && !is_valid(row->high_min_valid, 1));
	check(row->free[1] == 0x100 && row->vm_stat_diff[1] == -1);
	check(row->kind[2] == STAMP_KIND_REMOTE_DRAIN && row->node[2] == 2);
	check(!is_valid(row->count_valid, 2) && !is_valid(row->batch_valid, 2));
	check(!decoder_bad_records(d));
	done(d, tep);
}

/* Five rows of each text; a batch ends amid one, and the next begins with the rest. */
TEST(printed_list_heads_are_rows_with_a_pfn_each)
{
	struct tep_handle *tep = kernel_with("bpf_trace", printed, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct printed_record text = printed_text("pagetape 7f heads 20000000ffffffff 3 0 "
						  "ffffffffffffffff ffffffffffffffff "
						  "ffffffffffffffff.");
	const uint64_t expected[] = {0x20000000, 3, 0, 0, 0};
	size_t rows = 0;
	int full = 0, ret;

	while (full < 2) {
		const struct list_head_columns *row;
		struct batch *batch;

		if (decoder_add(d, 1, 5, &text, sizeof(text)))
			continue;
		batch = decoder_flush(d, false, &ret);
		row = (void *)batch->slots;
		check(!ret && batch->table == &list_head_table && batch->nr == batch->capacity);
		for (size_t i = 0; i < batch->nr; i++, rows++)
			check(row->pfn[i] == expected[rows % 5] && row->ts[i] == 5 &&
			      row->page_order[i] == rows % 5 + 1 && row->cpu[i] == 1 &&
			      row->pid[i] == 9 && !row->at[i]);
		full++;
	}
	decoder_flush(d, true, &ret);
	done(d, tep);
}

/* Each end, each byte replaced by one that no number has, and wrong numbers. */
TEST(a_damaged_stamp_is_counted_and_no_row)
{
	struct tep_handle *tep = kernel_with("bpf_trace", printed, NULL);
	struct decoder *d = decoder_for(tep, 64);
	static const char *const wrong[] = {
		"pagetape 7f",
		"pagetape 7f stamp",
		"pagetape 7f heads 1 2 3 4 5.",
		"pagetape 7f other 1 2.",
		"pagetape 7f free 1.",
		"pagetape 7f free 1 40.",
		"pagetape 7f free 1 4 4.",
		"pagetape 7f free 11112222333344445 4.",
		"pagetape 7f stamp 103 0 0 0 0 0 0.",  /* no such kind */
		"pagetape 7f stamp 9900 0 0 0 0 0 0.", /* no such zone */
		"pagetape 7f stamp 100 0 0 0 0 0 0 0.",
	};
	const size_t length = strlen(stamp_6_18), begin = strlen("pagetape 7f ");
	uint64_t bad = 0;
	size_t nr;
	int ret;

	for (size_t at = begin; at < length; at++) {
		struct printed_record cut = printed_text(stamp_6_18), replaced = cut;

		cut.text[at] = '\0';
		replaced.text[at] = '-';
		check(decoder_add(d, 0, 1, &cut, sizeof(cut)));
		check(decoder_add(d, 0, 1, &replaced, sizeof(replaced)));
		bad += 2;
		check(decoder_bad_records(d) == bad);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct printed_record record = printed_text(wrong[i]);

		check(decoder_add(d, 0, 1, &record, sizeof(record)));
		check(decoder_bad_records(d) == ++bad);
	}
	check(!decoder_flush(d, true, &ret) && !ret);
	decoder_counts(d, &nr);
	check(!nr);
	done(d, tep);
}

TEST(a_field_that_the_kernel_lacks_is_null)
{
	struct tep_handle *tep = kernel_with("kmem", locked_5_10, "kmem", locked_6_18, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct page_record old = {.type = 12, .migratetype = 1};
	struct page_record new = {.type = 13, .migratetype = 1, .percpu_refill = 1};
	const struct event_columns *row;
	size_t nr;

	check(decoder_add(d, 0, 1, &old, 24) && decoder_add(d, 0, 2, &new, 28));
	row = flush_events(d, &nr);
	check(nr == 2 && !is_valid(row->percpu_refill_valid, 0));
	check(is_valid(row->percpu_refill_valid, 1) && row->percpu_refill[1] == 1);
	done(d, tep);
}

TEST(every_row_has_its_own_validity)
{
	struct tep_handle *tep = kernel_with("kmem", alloc_6_18, "kmem", free_6_18, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct alloc_record alloc = {.type = 10};
	struct page_record freed = {.type = 11};
	const struct event_columns *row;
	size_t nr;

	for (int i = 0; i < 21; i++)
		check(decoder_add(d, 0, 1, i % 3 ? (void *)&freed : (void *)&alloc, 40));
	row = flush_events(d, &nr);
	check(nr == 21);
	for (int i = 0; i < 21; i++) {
		check(is_valid(row->pfn_valid, i) && is_valid(row->page_order_valid, i));
		check(is_valid(row->migratetype_valid, i) == (i % 3 == 0));
		check(is_valid(row->gfp_flags_valid, i) == (i % 3 == 0));
		check(!is_valid(row->fallback_migratetype_valid, i));
		check(!is_valid(row->change_ownership_valid, i));
	}
	done(d, tep);
}

TEST(migratetypes_go_by_the_kernels_names)
{
	static const char *const with_cma[] = {"Unmovable",  "Movable", "Reclaimable",
					       "HighAtomic", "CMA",     "Isolate"};
	static const char *const of_4_1[] = {"Unmovable", "Reclaimable", "Movable", "Reserve",
					     "Vendor"};
	static const struct {
		struct decoder_names names;
		uint8_t expected[7]; /* 0xff: null */
	} cases[] = {
		{{0}, {0, 1, 2, 3, MIGRATETYPE_ISOLATE, 0xff, 0xff}},
		{{6, with_cma, {0}}, {0, 1, 2, 3, MIGRATETYPE_CMA, MIGRATETYPE_ISOLATE, 0xff}},
		{{5, of_4_1, {0}}, {0, 2, 1, MIGRATETYPE_RESERVE, 0xff, 0xff, 0xff}},
	};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct tep_handle *tep = kernel_with("kmem", locked_6_18, NULL);
		const struct event_columns *row;
		struct decoder *d;
		size_t nr;

		check(!decoder_new(&d, tep, &cases[c].names, 64, NULL));
		for (int m = 0; m < 7; m++) {
			struct page_record record = {.type = 13, .migratetype = m};

			check(decoder_add(d, 0, 1, &record, 28));
		}
		row = flush_events(d, &nr);
		for (int m = 0; m < 7; m++) {
			uint8_t expected = cases[c].expected[m];

			check(is_valid(row->migratetype_valid, m) == (expected != 0xff));
			check(expected == 0xff || row->migratetype[m] == expected);
		}
		done(d, tep);
	}
}

TEST(zones_go_by_the_kernels_names)
{
	struct tep_handle *tep = kernel_with("compaction", finished, "kmem", wmarks, NULL);
	struct decoder *d = decoder_for(tep, 64);
	const struct {
		uint16_t type;
		uint8_t flags, preempt_count;
		int32_t pid, nid;
		uint32_t idx;
		int32_t order, ret;
	} compaction = {.type = 14, .nid = 1, .idx = 2, .order = -1, .ret = 5};
	const struct {
		uint16_t type;
		uint8_t flags, preempt_count;
		int32_t pid, node;
		uint32_t name;
		uint64_t min;
		char text[8];
	} setup = {.type = 15, .node = 1, .name = 7 << 16 | 24, .min = 42, .text = "Normal"};
	const struct compaction_columns *c;
	const struct reclaim_columns *r;
	struct batch *batch;
	int ret;

	check(decoder_add(d, 0, 1, &compaction, sizeof(compaction)));
	check(decoder_add(d, 0, 2, &setup, sizeof(setup)));
	batch = decoder_flush(d, true, &ret);
	check(batch->table == &reclaim_table && batch->nr == 1);
	r = (const struct reclaim_columns *)batch->slots;
	check(r->zone[0] == ZONE_NORMAL && is_valid(r->zone_valid, 0));
	check(r->wmark_min[0] == 42 && !is_valid(r->wmark_low_valid, 0));
	batch = decoder_flush(d, true, &ret);
	check(batch->table == &compaction_table && batch->nr == 1);
	c = (const struct compaction_columns *)batch->slots;
	check(c->zone[0] == ZONE_HIGHMEM && c->node[0] == 1);
	check(c->page_order[0] == -1 && is_valid(c->page_order_valid, 0) && c->status[0] == 5);
	check(!decoder_flush(d, true, &ret) && !ret);
	done(d, tep);
}

/* The only row of `compaction`. */
static const struct compaction_columns *compaction_row(struct decoder *d)
{
	struct batch *batch;
	int ret;

	batch = decoder_flush(d, true, &ret);
	check(batch && batch->table == &compaction_table && batch->nr == 1);
	return (const struct compaction_columns *)batch->slots;
}

TEST(a_request_for_contiguous_memory_reads_alike_on_every_kernel)
{
	const struct {
		uint16_t type;
		uint8_t flags, preempt_count;
		int32_t pid;
		uint64_t pfn, page;
		uint32_t count, align;
	} none = {.type = 20, .pid = 9, .pfn = UINT64_MAX, .page = 0, .count = 16};
	const struct {
		uint16_t type;
		uint8_t flags, preempt_count;
		int32_t pid;
		uint32_t name, unused;
		uint64_t pfn, page, count;
		uint32_t align;
		int32_t errorno;
	} done_ = {.type = 21, .pid = 9, .pfn = 512, .page = 0xffffea0000008000, .count = 16},
	  busy = {.type = 21, .pid = 9, .pfn = 512, .page = 0, .count = 16, .errorno = -16};
	const struct {
		const char *format;
		const void *record;
		int size;
		bool has_pfn, allocated, has_errorno;
	} cases[] = {
		{cma_5_10, &none, sizeof(none), false, false, false},
		{cma_6_1, &done_, sizeof(done_), true, true, false},
		{cma_6_1, &busy, sizeof(busy), true, false, false},
		{cma_7_3, &busy, sizeof(busy), true, false, true},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tep_handle *tep = kernel_with("cma", cases[i].format, NULL);
		struct decoder *d = decoder_for(tep, 64);
		const struct compaction_columns *c;

		check(decoder_add(d, 0, 1, cases[i].record, cases[i].size));
		c = compaction_row(d);
		check(c->kind[0] == COMPACTION_KIND_CMA_ALLOC_FINISH && c->nr_pages[0] == 16);
		check(is_valid(c->start_pfn_valid, 0) == cases[i].has_pfn);
		check(is_valid(c->allocated_valid, 0) && c->allocated[0] == cases[i].allocated);
		check(is_valid(c->errorno_valid, 0) == cases[i].has_errorno);
		check(!cases[i].has_errorno || c->errorno[0] == -16);
		done(d, tep);
	}
}

TEST(a_range_that_was_isolated_has_its_first_busy_page)
{
	const struct {
		uint16_t type;
		uint8_t flags, preempt_count;
		int32_t pid;
		uint32_t name, unused;
		uint64_t wanted, available, total;
		uint32_t align;
	} start = {.type = 22, .pid = 9, .wanted = 4096, .available = 8192, .total = 16384};
	const struct {
		uint16_t type;
		uint8_t flags, preempt_count;
		int32_t pid;
		uint64_t start, end, fin;
	} check_ = {.type = 23, .pid = 9, .start = 1024, .end = 1536, .fin = 1030};
	struct tep_handle *tep =
		kernel_with("cma", cma_start_7_3, "page_isolation", isolated, NULL);
	struct decoder *d = decoder_for(tep, 64);
	const struct compaction_columns *c;
	struct batch *batch;
	int ret;

	check(decoder_add(d, 0, 1, &start, sizeof(start)));
	check(decoder_add(d, 0, 2, &check_, sizeof(check_)));
	batch = decoder_flush(d, true, &ret);
	check(batch && batch->nr == 2);
	c = (const struct compaction_columns *)batch->slots;
	check(c->kind[0] == COMPACTION_KIND_CMA_ALLOC_START && c->nr_pages[0] == 4096);
	check(!is_valid(c->allocated_valid, 0) && !is_valid(c->start_pfn_valid, 0));
	check(c->kind[1] == COMPACTION_KIND_TEST_PAGES_ISOLATED && c->start_pfn[1] == 1024);
	check(c->end_pfn[1] == 1536 && c->fin_pfn[1] == 1030);
	done(d, tep);
}

TEST(a_trace_of_the_other_byte_order_reads_the_same)
{
	struct tep_handle *tep = kernel_with("kmem", alloc_6_18, NULL);
	struct alloc_record record = {
		.type = __builtin_bswap16(10),
		.pid = (int32_t)__builtin_bswap32(77),
		.pfn = __builtin_bswap64(0x1234),
		.order = __builtin_bswap32(3),
		.gfp_flags = __builtin_bswap64(1 << 7),
		.migratetype = (int32_t)__builtin_bswap32(1),
	};
	const struct event_columns *row;
	struct decoder *d;
	size_t nr;

	tep_set_file_bigendian(tep, !tep_is_local_bigendian(tep));
	d = decoder_for(tep, 64);
	check(decoder_add(d, 0, 1, &record, sizeof(record)));
	row = flush_events(d, &nr);
	check(row->pid[0] == 77 && row->pfn[0] == 0x1234 && row->page_order[0] == 3);
	check(row->gfp_flags[0] == GFP_FS && row->migratetype[0] == MIGRATETYPE_MOVABLE);
	done(d, tep);
}

TEST(a_full_batch_makes_way_for_the_next)
{
	struct tep_handle *tep = kernel_with("kmem", free_6_18, "compaction", finished, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct page_record freed = {.type = 11};
	struct {
		uint32_t type;
		int32_t pid, nid, idx, order, ret;
	} compaction = {.type = 14};
	const struct compaction_columns *c;
	struct ArrowArray held;
	struct batch *batch;
	int ret;

	for (int i = 0; i < 64; i++)
		check(decoder_add(d, 0, (uint64_t)i, &freed, 20));
	check(!decoder_add(d, 0, 64, &freed, 20));
	batch = decoder_flush(d, false, &ret);
	check(batch && batch->nr == 64 && !batch_export(batch, &held, NULL));
	check(!decoder_flush(d, false, &ret) && !ret);
	check(decoder_add(d, 0, 64, &freed, 20));
	check(decoder_add(d, 0, 65, &compaction, sizeof(compaction)));
	batch = decoder_flush(d, true, &ret);
	check(batch->table == &event_table && batch->nr == 1);
	check(((struct event_columns *)batch->slots)->ts[0] == 64);
	batch = decoder_flush(d, true, &ret);
	c = (const struct compaction_columns *)batch->slots;
	check(batch->nr == 1 && c->at[0] == 65);
	done(d, tep);
	held.release(&held); /* the consumer may outlive the decoder */
}

TEST(damaged_records_are_counted)
{
	struct tep_handle *tep = kernel_with("kmem", free_6_18, "kmem", other, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct page_record unknown = {.type = 99}, freed = {.type = 11}, seen = {.type = 18};
	const struct decoder_count *counts;
	size_t nr;
	int ret;

	check(decoder_add(d, 0, 1, &unknown, sizeof(unknown)));
	check(decoder_add(d, 0, 1, &freed, 19));
	check(decoder_add(d, 0, 1, &freed, 4));
	check(decoder_add(d, 0, 1, &freed, 0));
	check(decoder_bad_records(d) == 4 && !decoder_flush(d, true, &ret));
	check(decoder_add(d, 0, 1, &seen, 16));
	counts = decoder_counts(d, &nr);
	check(nr == 1 && counts[0].events == 1 && !counts[0].stored);
	check(!strcmp(counts[0].name, "rss_stat") && !strcmp(counts[0].system, "kmem"));
	done(d, tep);
}

TEST(only_vmstat_update_is_work)
{
	struct tep_handle *tep = kernel_with("workqueue", work, NULL);
	struct {
		uint32_t type;
		int32_t pid;
		uint64_t work, function;
	} record = {.type = 16};
	struct decoder_names names = {.addresses.vmstat_update = 0x2000};
	struct decoder *d;
	struct batch *batch;
	int ret;

	tep_register_function(tep, (char *)"vmstat_update", 0x1000, NULL);
	tep_register_function(tep, (char *)"something_else", 0x2000, NULL);
	d = decoder_for(tep, 64);
	for (uint64_t function = 0; function <= 0x3000; function += 0x1000) {
		record.function = function;
		check(decoder_add(d, 0, function, &record, sizeof(record)));
		check(decoder_add(d, 0, function, &record, sizeof(record)));
	}
	batch = decoder_flush(d, true, &ret);
	check(batch && batch->nr == 2 && ((struct reclaim_columns *)batch->slots)->ts[0] == 0x1000);
	decoder_free(d);

	check(!decoder_new(&d, tep, &names, 64, NULL)); /* an address given beats the symbols */
	for (record.function = 0; record.function <= 0x3000; record.function += 0x1000)
		check(decoder_add(d, 0, record.function, &record, sizeof(record)));
	batch = decoder_flush(d, true, &ret);
	check(batch && batch->nr == 1 && ((struct reclaim_columns *)batch->slots)->ts[0] == 0x2000);
	done(d, tep);
}

#define LOCK_ADDR "\nprint fmt: \"%p\", REC->lock_addr\n"
static const char contention_begin[] =
	"name: contention_begin\nID: 25\n" COMMON FIELD("void * lock_addr", 8, 8, 0)
		FIELD("unsigned int flags", 16, 4, 0) LOCK_ADDR;
static const char contention_end[] =
	"name: contention_end\nID: 26\n" COMMON FIELD("void * lock_addr", 8, 8, 0)
		FIELD("int ret", 16, 4, 1) LOCK_ADDR;
static const char contended_release[] =
	"name: contended_release\nID: 27\n" COMMON FIELD("void * lock_addr", 8, 8, 0) LOCK_ADDR;

TEST(only_locks_of_zones_have_rows)
{
	struct tep_handle *tep = kernel_with("lock", contention_begin, "lock", contention_end,
					     "lock", contended_release, NULL);
	struct {
		uint32_t type;
		int32_t pid;
		uint64_t lock_addr;
		uint32_t flags, unused;
	} record = {.type = 25, .pid = 7};
	struct decoder_names names = {
		.addresses = {.nr_zone_locks = 2,
			      .zone_locks = {{0xffff888000001000, 0, ZONE_DMA32},
					     {0xffff888000002000, 3, ZONE_NORMAL}}},
	};
	const struct lock_event_columns *of;
	const struct decoder_count *counts;
	struct decoder *d;
	struct batch *batch;
	size_t nr;
	int ret;

	check(!decoder_new(&d, tep, &names, 64, NULL));
	for (uint64_t lock = 0xffff888000000000; lock <= 0xffff888000003000; lock += 0x1000) {
		record.lock_addr = lock;
		for (record.type = 25; record.type <= 27; record.type++)
			check(decoder_add(d, 5, lock, &record,
					  record.type == 27 ? 16 : sizeof(record) - 4));
	}
	batch = decoder_flush(d, true, &ret);
	check(batch && batch->table == &lock_event_table && batch->nr == 6);
	of = (const struct lock_event_columns *)batch->slots;
	for (size_t i = 0; batch && i < batch->nr; i++) {
		check(of->kind[i] == i % 3 && of->cpu[i] == 5 && of->pid[i] == 7);
		check(of->node[i] == (i < 3 ? 0 : 3));
		check(of->zone[i] == (i < 3 ? ZONE_DMA32 : ZONE_NORMAL));
	}
	counts = decoder_counts(d, &nr);
	check(nr == 3 && counts[0].events == 4 && !strcmp(counts[0].stored, "lock_event"));
	decoder_free(d);

	/* Without addresses the events are counted. */
	d = decoder_for(tep, 64);
	record.type = 25;
	check(decoder_add(d, 0, 1, &record, sizeof(record)) && !decoder_flush(d, true, &ret));
	counts = decoder_counts(d, &nr);
	check(nr == 1 && !counts[0].stored && counts[0].events == 1);
	check(counts[0].unreadable && strstr(counts[0].unreadable, "zones' locks are unknown"));
	done(d, tep);
}

TEST(every_pid_is_remembered_once)
{
	static const int32_t pids[] = {4000000, 0, 7, 7, 0, 4194303, 4194304, -1};
	struct tep_handle *tep = kernel_with("kmem", free_6_18, NULL);
	struct decoder *d = decoder_for(tep, 64);
	int32_t *seen;
	size_t nr;

	for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++) {
		struct page_record freed = {.type = 11, .pid = pids[i]};

		check(decoder_add(d, 0, 1, &freed, 20));
	}
	seen = decoder_pids(d, &nr);
	check(nr == 4 && seen[0] == 0 && seen[1] == 7 && seen[2] == 4000000 && seen[3] == 4194303);
	free(seen);
	done(d, tep);
}

/* An event that prints pageblock_order in the words of `order`, after a %% and a pfn. */
static int pageblock_order_printed_as(const char *order)
{
	char format[1024];
	struct tep_handle *tep;
	struct decoder *d;
	int found;

	snprintf(format, sizeof(format),
		 "name: mm_page_alloc_extfrag\nID: 19\n" COMMON FIELD("unsigned long pfn", 8, 8, 0)
			 FIELD("int alloc_order", 16, 4, 1) FIELD("int fallback_order", 20, 4, 1)
				 FIELD("int alloc_migratetype", 24, 4, 1)
					 FIELD("int fallback_migratetype", 28, 4, 1)
						 FIELD("int change_ownership", 32, 4,
						       1) "\nprint fmt: \"100%%%% pfn=0x%%lx "
							  "pageblock_order=%%d\", REC->pfn, %s\n",
		 order);
	tep = kernel_with("kmem", format, NULL);
	d = decoder_for(tep, 64);
	found = decoder_pageblock_order(d);
	done(d, tep);
	return found;
}

TEST(the_print_format_has_the_pageblock_order)
{
	check(pageblock_order_printed_as("9") == 9);
	check(pageblock_order_printed_as("(21 - 12)") == 9);
	/* 6.1 and 6.18 on x86-64, and a kernel whose MAX_PAGE_ORDER is the smaller */
	check(pageblock_order_printed_as(
		      "(((unsigned int)((21 - 12))) < ((unsigned int)(11 - 1)) ? "
		      "((unsigned int)((21 - 12))) : ((unsigned int)(11 - 1)))") == 9);
	check(pageblock_order_printed_as("((13) < (10) ? (13) : (10))") == 10);
	check(pageblock_order_printed_as("REC->alloc_order") == -1);
	check(pageblock_order_printed_as("pageblock_order") == -1);
	check(pageblock_order_printed_as("1000") == -1);
}

TEST(events_without_a_pfn_are_counted_and_named)
{
	struct tep_handle *tep = kernel_with("kmem", pages_2_6_32, NULL);
	const char *why = "kmem:mm_page_free has no usable field 'pfn'"
			  " (kernels before 4.1 have none)";
	const struct decoder_names names = {0};
	const struct decoder_count *counts;
	struct error err = {""};
	struct decoder *d;
	uint8_t record[64] = {0};
	size_t nr;
	int ret;

	check(!decoder_new(&d, tep, &names, 64, &err));
	check(decoder_check(d, &err) == -EINVAL && !strcmp(err.msg, why));
	memcpy(record, &(uint16_t){(uint16_t)tep_get_first_event(tep)->id}, 2);
	check(decoder_add(d, 0, 1, record, sizeof(record)));
	counts = decoder_counts(d, &nr);
	check(nr == 1 && counts[0].events == 1 && !counts[0].stored);
	check(!strcmp(counts[0].unreadable, why));
	check(!decoder_flush(d, true, &ret) && !ret && !decoder_bad_records(d));
	decoder_free(d);
	tep_free(tep);
}

struct stack_record {
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t pid, nr, pad;
	uint64_t caller[10];
};

static const struct stack_columns *flush_stacks(struct decoder *d, size_t *nr)
{
	struct batch *batch;
	int ret;

	*nr = 0;
	while ((batch = decoder_flush(d, true, &ret))) {
		if (batch->table == &stack_table) {
			*nr = batch->nr;
			return (const struct stack_columns *)batch->slots;
		}
	}
	return NULL;
}

TEST(a_stack_belongs_to_the_event_just_before_it_on_its_cpu)
{
	struct tep_handle *tep =
		kernel_with("kmem", free_6_18, "ftrace", kernel_stack, "kmem", other, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct page_record freed = {.type = 11, .pid = 7}, neighbour = {.type = 11, .pid = 8};
	struct stack_record stack = {.type = 4, .pid = 7, .nr = 2, .caller = {0xa, 0xb, 0xc}};
	struct stack_record same = stack;
	uint64_t frames[STACK_FRAMES];
	const struct stack_columns *row;
	size_t nr;

	check(decoder_add(d, 1, 100, &freed, sizeof(freed)));
	check(decoder_add(d, 0, 101, &neighbour, sizeof(neighbour)));
	check(decoder_add(d, 1, 102, &stack, sizeof(stack)));
	same.pid = 8;
	check(decoder_add(d, 0, 103, &same, 32));
	row = flush_stacks(d, &nr);
	check(nr == 2);
	check(row->at[0] == 2 && row->ts[0] == 102 && row->cpu[0] == 1 && row->pid[0] == 7);
	check(row->event_ts[0] == 100 && row->event_ts[1] == 101);
	check(is_valid(row->event_ts_valid, 0) && is_valid(row->event_ts_valid, 1));
	check(row->stack[0] == 0 && row->stack[1] == 0 && is_valid(row->stack_valid, 1));
	check(stacks_get(decoder_stacks(d), 0, frames) == 2);
	check(frames[0] == 0xa && frames[1] == 0xb);
	done(d, tep);
}

TEST(a_stack_without_its_event_says_so)
{
	struct tep_handle *tep = kernel_with("kmem", free_6_18, "ftrace", kernel_stack, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct page_record freed = {.type = 11, .pid = 7};
	struct stack_record stack = {.type = 4, .pid = 7, .nr = 1, .caller = {0xa}};
	const struct stack_columns *row;
	size_t nr;

	check(decoder_add(d, 0, 1, &stack, 24)); /* the first of its ring */
	check(decoder_add(d, 0, 2, &freed, sizeof(freed)));
	decoder_gap(d, 0); /* the kernel lost something here */
	check(decoder_add(d, 0, 3, &stack, 24));
	check(decoder_add(d, 0, 4, &freed, sizeof(freed)));
	stack.pid = 9; /* of another thread */
	check(decoder_add(d, 0, 5, &stack, 24));
	stack.pid = 7;
	check(decoder_add(d, 0, 6, &freed, sizeof(freed)));
	check(decoder_add(d, 0, 7, &stack, 24));
	check(decoder_add(d, 0, 8, &stack, 24)); /* the event has its own already */
	row = flush_stacks(d, &nr);
	check(nr == 5);
	for (size_t i = 0; i < 5; i++)
		check(is_valid(row->event_ts_valid, i) == (i == 3));
	check(row->event_ts[3] == 6);
	done(d, tep);
}

TEST(stacks_of_other_tracepoints_are_only_counted)
{
	struct tep_handle *tep =
		kernel_with("kmem", free_6_18, "kmem", other, "ftrace", kernel_stack, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct page_record rss = {.type = 18, .pid = 7};
	struct stack_record stack = {.type = 4, .pid = 7, .nr = 1, .caller = {0xa}};
	size_t nr;

	check(decoder_add(d, 0, 1, &rss, 16));
	check(decoder_add(d, 0, 2, &stack, 24));
	check(!flush_stacks(d, &nr));
	check(decoder_counts(d, &nr)[1].events == 1 && nr == 2);
	done(d, tep);
}

TEST(a_stack_ends_with_its_record_or_with_all_ones)
{
	struct tep_handle *tep = kernel_with("kmem", free_6_18, "ftrace", kernel_stack_2_6, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct page_record freed = {.type = 11};
	uint64_t record[9] = {4, 0xa, 0xb, UINT64_MAX, 0xc}, frames[STACK_FRAMES];

	check(decoder_add(d, 0, 1, &freed, sizeof(freed)));
	check(decoder_add(d, 0, 2, record, sizeof(record)));
	check(stacks_get(decoder_stacks(d), 0, frames) == 2 && frames[1] == 0xb);
	check(decoder_add(d, 0, 3, &freed, sizeof(freed)));
	check(decoder_add(d, 0, 4, record, 16));
	check(stacks_get(decoder_stacks(d), 1, frames) == 1 && frames[0] == 0xa);
	check(decoder_add(d, 0, 5, record, 8)); /* empty */
	check(stacks_get(decoder_stacks(d), 2, frames) == -1);
	done(d, tep);
}

TEST(a_hostile_stack_stays_within_its_record)
{
	struct tep_handle *tep = kernel_with("kmem", free_6_18, "ftrace", kernel_stack, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct page_record freed = {.type = 11};
	struct stack_record stack = {.type = 4, .nr = INT32_MAX, .caller = {1, 2, 3}};
	uint64_t frames[STACK_FRAMES];

	check(decoder_add(d, 65535, 1, &freed, sizeof(freed)));
	check(decoder_add(d, 65535, 2, &stack, 32));
	check(stacks_get(decoder_stacks(d), 0, frames) == 2);
	stack.nr = -1;
	check(decoder_add(d, 0, 3, &stack, 24));
	check(stacks_get(decoder_stacks(d), 1, frames) == 1);
	check(decoder_add(d, 0, 4, &stack, 12) && decoder_bad_records(d) == 1);
	done(d, tep);
}

TEST(a_stack_whose_length_is_far_away_is_refused_record_by_record)
{
	struct tep_handle *tep = kernel_with("kmem", free_6_18, "ftrace", far_stack, NULL);
	struct decoder *d = decoder_for(tep, 64);
	struct stack_record stack = {.type = 4, .nr = 3, .caller = {1, 2, 3}}, *alone;

	alone = malloc(sizeof(stack));
	*alone = stack;
	check(decoder_add(d, 0, 1, alone, sizeof(*alone)));
	check(decoder_bad_records(d) == 1);
	free(alone);
	done(d, tep);
}

TEST(two_formats_of_stacks_share_their_numbers)
{
	struct tep_handle *tep = kernel_with("kmem", free_6_18, "ftrace", kernel_stack, NULL);
	char again[sizeof(kernel_stack)];
	struct decoder *d;

	memcpy(again, kernel_stack, sizeof(again));
	*strstr(again, "ID: 4") = 'I';
	strstr(again, "ID: 4")[4] = '5';
	check(!tep_parse_event(tep, again, strlen(again), "ftrace"));
	d = decoder_for(tep, 64);
	check(decoder_stacks(d) != NULL);
	done(d, tep); /* the address sanitizer sees a leak */
}

TEST(formats_of_preempt_rt_have_more_common_fields)
{
	struct {
		uint16_t type;
		uint8_t flags, preempt_count;
		int32_t pid;
		uint64_t rt, pfn;
		uint32_t order;
	} freed = {.type = 11, .flags = 1, .pid = 9, .rt = 0x0101, .pfn = 0x123456, .order = 3};
	const char *const formats[] = {free_rt, free_old_rt};

	for (int i = 0; i < 2; i++) {
		struct tep_handle *tep = kernel_with("kmem", formats[i], NULL);
		struct decoder *d = decoder_for(tep, 64);
		const struct event_columns *rows;
		size_t nr;

		check(decoder_add(d, 0, 1, &freed, sizeof(freed)));
		rows = flush_events(d, &nr);
		check(nr == 1 && rows->pfn[0] == 0x123456 && rows->page_order[0] == 3);
		check(rows->pid[0] == 9 && rows->flags[0] == CONTEXT_IRQS_OFF);
		done(d, tep);
	}
}
