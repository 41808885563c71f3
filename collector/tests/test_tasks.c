// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "tasks.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#define COMMON_FIELDS                                                                              \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                     \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"             \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

static const char newtask_format[] = "name: task_newtask\nID: 10\nformat:\n" COMMON_FIELDS
				     "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n"
				     "\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
				     "\tfield:u64 clone_flags;\toffset:32;\tsize:8;\tsigned:0;\n\n"
				     "print fmt: \"pid=%d\", REC->pid\n";
static const char rename_format[] = "name: task_rename\nID: 11\nformat:\n" COMMON_FIELDS
				    "\tfield:pid_t pid;\toffset:8;\tsize:4;\tsigned:1;\n"
				    "\tfield:char oldcomm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
				    "\tfield:char newcomm[16];\toffset:28;\tsize:16;\tsigned:0;\n\n"
				    "print fmt: \"pid=%d\", REC->pid\n";

struct newtask {
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t common_pid, pid;
	char comm[16];
	uint64_t clone_flags;
};

struct rename {
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t common_pid, pid;
	char oldcomm[16], newcomm[16];
};

static struct tep_handle *tep;

static struct tasks *new_tasks(void)
{
	struct tasks *tasks = NULL;

	check(tasks_new(&tasks, tep, NULL) == 0);
	return tasks;
}

/* Pids above the kernel's limit, so that /proc has none of them. */
enum { PARENT = 5000000, CHILD, THREAD };

static void see_newtask(struct tasks *tasks, int32_t parent, int32_t pid, uint64_t clone_flags)
{
	struct newtask record = {.type = 10, .common_pid = parent, .pid = pid, .comm = "parent"};

	record.clone_flags = clone_flags;
	tasks_see(tasks, &record, sizeof(record));
}

static void a_new_process_has_its_parents_name_until_it_takes_another(void)
{
	struct rename exec = {.type = 11, .common_pid = CHILD, .pid = CHILD, .newcomm = "child"};
	struct tasks *tasks = new_tasks();

	check(tasks_find(tasks, CHILD) == NULL);
	see_newtask(tasks, PARENT, CHILD, 0);
	check(!strcmp(tasks_find(tasks, CHILD)->comm, "parent"));
	check(tasks_find(tasks, CHILD)->tgid == CHILD);
	tasks_see(tasks, &exec, sizeof(exec));
	check(!strcmp(tasks_find(tasks, CHILD)->comm, "child"));
	check(tasks_find(tasks, CHILD)->tgid == CHILD);
	tasks_free(tasks);
}

static void a_new_thread_belongs_to_the_process_of_its_parent(void)
{
	struct tasks *tasks = new_tasks();

	see_newtask(tasks, PARENT, CHILD, 0);
	see_newtask(tasks, CHILD, THREAD, CLONE_THREAD);
	check(tasks_find(tasks, THREAD)->tgid == CHILD);
	check(!tasks_find(tasks, THREAD)->kthread);
	tasks_free(tasks);
}

static void kthreadd_makes_kernel_threads(void)
{
	struct tasks *tasks = new_tasks();

	see_newtask(tasks, 2, CHILD, 0);
	check(tasks_find(tasks, CHILD)->kthread);
	tasks_free(tasks);
}

static void many_tasks_are_all_found_again(void)
{
	struct tasks *tasks = new_tasks();

	for (int32_t i = 0; i < 20000; i++)
		see_newtask(tasks, PARENT, CHILD + i * 7, 0);
	for (int32_t i = 0; i < 20000; i++)
		check(tasks_find(tasks, CHILD + i * 7) != NULL);
	tasks_free(tasks);
}

static void short_and_foreign_records_teach_nothing(void)
{
	struct newtask record = {.type = 10, .common_pid = PARENT, .pid = CHILD, .comm = "parent"};
	struct tasks *tasks = new_tasks();

	tasks_see(tasks, &record, 20);
	record.type = 12;
	tasks_see(tasks, &record, sizeof(record));
	check(tasks_find(tasks, CHILD) == NULL);
	tasks_free(tasks);
}

static void living_threads_are_known_from_proc(void)
{
	struct tasks *tasks = new_tasks();

	check(!strcmp(tasks_find(tasks, getpid())->comm, "test_tasks"));
	check(tasks_find(tasks, getpid())->tgid == getpid());
	tasks_scan(tasks);
	check(tasks_find(tasks, 1)->tgid == 1);
	tasks_free(tasks);
}

int main(void)
{
	tep = tep_alloc();
	tep_parse_event(tep, newtask_format, strlen(newtask_format), "task");
	tep_parse_event(tep, rename_format, strlen(rename_format), "task");
	test(a_new_process_has_its_parents_name_until_it_takes_another);
	test(a_new_thread_belongs_to_the_process_of_its_parent);
	test(kthreadd_makes_kernel_threads);
	test(many_tasks_are_all_found_again);
	test(short_and_foreign_records_teach_nothing);
	test(living_threads_are_known_from_proc);
	tep_free(tep);
	return check_done();
}
