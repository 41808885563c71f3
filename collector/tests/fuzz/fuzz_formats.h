/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_formats.h - formats of the events that a recording has, shortened to the fields read. */
#pragma once

#define COMMON                                                                                     \
	"format:\n"                                                                                \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"             \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
#define FIELD(declaration, offset, size, is_signed)                                                \
	"\tfield:" declaration ";\toffset:" #offset ";\tsize:" #size ";\tsigned:" #is_signed ";\n"
#define PAGE  FIELD("unsigned long pfn", 8, 8, 0) FIELD("unsigned int order", 16, 4, 0)
#define PRINT "\nprint fmt: \"%d\", REC->common_pid\n"

static const struct {
	const char *system, *text;
} fuzz_formats[] = {
	{"kmem",
	 "name: mm_page_alloc\nID: 10\n" COMMON PAGE FIELD("unsigned long gfp_flags", 24, 8, 0)
		 FIELD("int migratetype", 32, 4,
		       1) "\nprint fmt: \"%s\", __print_flags(REC->gfp_flags, \"|\", "
			  "{0x40u, \"__GFP_IO\"}, {0x80u, \"__GFP_FS\"})\n"},
	{"kmem", "name: mm_page_free\nID: 11\n" COMMON PAGE PRINT},
	{"kmem", "name: mm_page_alloc_extfrag\nID: 12\n" COMMON FIELD("unsigned long pfn", 8, 8, 0)
			 FIELD("int alloc_order", 16, 4, 1) FIELD("int fallback_order", 20, 4, 1)
				 FIELD("int alloc_migratetype", 24, 4, 1)
					 FIELD("int fallback_migratetype", 28, 4, 1)
						 FIELD("int change_ownership", 32, 4, 1) PRINT},
	{"vmscan", "name: mm_vmscan_wakeup_kswapd\nID: 13\n" COMMON FIELD("int nid", 8, 4, 1)
			   FIELD("int zid", 12, 4, 1) FIELD("int order", 16, 4, 1)
				   FIELD("unsigned long gfp_flags", 24, 8, 0) PRINT},
	{"vmscan", "name: mm_setup_per_zone_wmarks\nID: 14\n" COMMON FIELD("int node_id", 8, 4, 1)
			   FIELD("__data_loc char[] name", 12, 4, 0)
				   FIELD("unsigned long watermark_min", 16, 8, 0) PRINT},
	{"ftrace", "name: kernel_stack\nID: 4\n" COMMON FIELD("int size", 8, 4, 1)
			   FIELD("unsigned long caller[8]", 16, 64, 0) PRINT},
	{"task", "name: task_newtask\nID: 15\n" COMMON FIELD("pid_t pid", 8, 4, 1) FIELD(
			 "char comm[16]", 12, 16, 0) FIELD("u64 clone_flags", 32, 8, 0) PRINT},
	{"task", "name: task_rename\nID: 16\n" COMMON FIELD("pid_t pid", 8, 4, 1)
			 FIELD("char newcomm[16]", 28, 16, 0) PRINT},
	{"cgroup",
	 "name: cgroup_attach_task\nID: 17\n" COMMON FIELD("int dst_root", 8, 4, 1)
		 FIELD("int pid", 24, 4, 1) FIELD("__data_loc char[] dst_path", 28, 4, 0) PRINT},
	{"workqueue", "name: workqueue_execute_start\nID: 18\n" COMMON FIELD("void * work", 8, 8, 0)
			      FIELD("void * function", 16, 8, 0) PRINT},
};

#undef COMMON
#undef FIELD
#undef PAGE
#undef PRINT
