// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "decode/tasks.h"

#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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

static const char attach_format[] = "name: cgroup_attach_task\nID: 12\nformat:\n" COMMON_FIELDS
				    "\tfield:int dst_root;\toffset:8;\tsize:4;\tsigned:1;\n"
				    "\tfield:int dst_level;\toffset:12;\tsize:4;\tsigned:1;\n"
				    "\tfield:u64 dst_id;\toffset:16;\tsize:8;\tsigned:0;\n"
				    "\tfield:int pid;\toffset:24;\tsize:4;\tsigned:1;\n"
				    "\tfield:__data_loc char[] dst_path;\toffset:28;\tsize:4;"
				    "\tsigned:0;\n\n"
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

struct attach {
	uint16_t type;
	uint8_t flags, preempt_count;
	int32_t common_pid, dst_root, dst_level;
	uint64_t dst_id;
	int32_t pid;
	uint16_t path_at, path_size;
	char path[24];
};

static const char far_format[] = "name: task_newtask\nID: 10\nformat:\n" COMMON_FIELDS
				 "\tfield:pid_t pid;\toffset:60000;\tsize:4;\tsigned:1;\n"
				 "\tfield:char comm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
				 "\tfield:u64 clone_flags;\toffset:2000000000;\tsize:8;"
				 "\tsigned:0;\n\n"
				 "print fmt: \"pid=%d\", REC->pid\n";

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

TEST(a_new_process_has_its_parents_name_until_it_takes_another)
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

TEST(a_new_thread_belongs_to_the_process_of_its_parent)
{
	struct tasks *tasks = new_tasks();

	see_newtask(tasks, PARENT, CHILD, 0);
	see_newtask(tasks, CHILD, THREAD, CLONE_THREAD);
	check(tasks_find(tasks, THREAD)->tgid == CHILD);
	check(!tasks_find(tasks, THREAD)->kthread);
	tasks_free(tasks);
}

TEST(kthreadd_makes_kernel_threads)
{
	struct tasks *tasks = new_tasks();
	const struct task *kthreadd;

	see_newtask(tasks, 2, CHILD, 0);
	check(tasks_find(tasks, CHILD)->kthread ==
	      -1);                       /* its parent may be any thread with pid 2 */
	kthreadd = tasks_find(tasks, 2); /* in a container not the kernel's */
	see_newtask(tasks, 2, THREAD, 0);
	check(tasks_find(tasks, THREAD)->kthread == (kthreadd ? kthreadd->kthread : -1));
	tasks_free(tasks);
}

TEST(a_kernel_thread_that_renames_itself_may_be_a_process_now)
{
	struct rename rename = {.type = 11, .common_pid = 2, .pid = CHILD, .newcomm = "worker"};
	struct tasks *tasks = new_tasks();
	const struct task *kthreadd = tasks_find(tasks, 2);
	int kthread = kthreadd ? kthreadd->kthread : -1;

	see_newtask(tasks, 2, CHILD, 0);
	tasks_see(tasks, &rename, sizeof(rename));
	check(tasks_find(tasks, CHILD)->kthread == kthread);
	rename.common_pid = CHILD;
	tasks_see(tasks, &rename, sizeof(rename));
	check(tasks_find(tasks, CHILD)->kthread == (kthread == 1 ? -1 : kthread));
	tasks_free(tasks);
}

TEST(a_thread_of_which_only_a_name_is_known_is_not_proven)
{
	struct rename rename = {.type = 11, .pid = CHILD, .newcomm = "kswapd0"};
	struct tasks *tasks = new_tasks();

	tasks_see(tasks, &rename, sizeof(rename));
	check(tasks_find(tasks, CHILD)->kthread == -1);
	tasks_free(tasks);
}

/* The hierarchy whose groups count here, and the group of this process in it. */
static int own_cgroup(char path[4096])
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[4096 + 64], controllers[64], *at;
	int hierarchy, found = -1;

	while (file && fgets(line, sizeof(line), file)) {
		bool v2 = sscanf(line, "%d::", &hierarchy) == 1 && strstr(line, "::");
		bool memory = sscanf(line, "%d:%63[^:]:", &hierarchy, controllers) == 2 &&
			      !strcmp(controllers, "memory");

		if (!memory && (!v2 || found >= 0))
			continue;
		found = hierarchy;
		at = strchr(strchr(line, ':') + 1, ':') + 1;
		at[strcspn(at, "\n")] = '\0';
		strcpy(path, at);
	}
	if (file)
		fclose(file);
	return found;
}

static void see_attach(struct tasks *tasks, int hierarchy, int32_t pid, const char *path)
{
	struct attach record = {.type = 12, .dst_root = hierarchy, .pid = pid};

	record.path_at = offsetof(struct attach, path);
	record.path_size = sizeof(record.path);
	strcpy(record.path, path);
	tasks_see(tasks, &record, sizeof(record));
}

TEST(a_child_is_in_its_parents_control_group_until_it_moves)
{
	struct tasks *tasks = new_tasks();
	char own[4096];
	int hierarchy = own_cgroup(own);

	tasks_find(tasks, getpid());
	see_newtask(tasks, getpid(), CHILD, 0);
	see_newtask(tasks, CHILD, THREAD, CLONE_THREAD);
	if (hierarchy >= 0)
		check(!strcmp(tasks_find(tasks, CHILD)->cgroup, own));
	hierarchy = hierarchy < 0 ? 0 : hierarchy;
	see_attach(tasks, hierarchy, CHILD, "/a.slice");
	check(!strcmp(tasks_find(tasks, CHILD)->cgroup, "/a.slice"));
	check(!strcmp(tasks_find(tasks, THREAD)->cgroup, "/a.slice"));
	see_attach(tasks, hierarchy, THREAD, "/b.slice");
	check(!strcmp(tasks_find(tasks, CHILD)->cgroup, "/a.slice"));
	check(!strcmp(tasks_find(tasks, THREAD)->cgroup, "/b.slice"));
	see_attach(tasks, hierarchy + 77, CHILD, "/c.slice"); /* another controller's */
	check(!strcmp(tasks_find(tasks, CHILD)->cgroup, "/a.slice"));
	tasks_free(tasks);
}

TEST(a_child_cloned_into_a_control_group_is_not_in_its_parents)
{
	struct tasks *tasks = new_tasks();

	tasks_find(tasks, getpid());
	see_newtask(tasks, getpid(), CHILD, 0x200000000);
	check(!tasks_find(tasks, CHILD)->cgroup); /* its /proc entry is gone */
	tasks_free(tasks);
}

TEST(an_unterminated_path_is_ignored)
{
	struct attach record = {.type = 12, .pid = CHILD};
	struct tasks *tasks = new_tasks();
	char own[4096];
	int hierarchy = own_cgroup(own);

	record.dst_root = hierarchy < 0 ? 0 : hierarchy;
	see_newtask(tasks, PARENT, CHILD, 0);
	record.path_at = offsetof(struct attach, path);
	memset(record.path, 'x', sizeof(record.path));
	tasks_see(tasks, &record, sizeof(record));
	record.path_at = UINT16_MAX;
	tasks_see(tasks, &record, sizeof(record));
	tasks_see(tasks, &record, 30);
	check(!tasks_find(tasks, CHILD)->cgroup);
	tasks_free(tasks);
}

TEST(many_control_groups_stay_distinct)
{
	struct tasks *tasks = new_tasks();
	char own[4096], path[24];
	int hierarchy = own_cgroup(own);

	for (int i = 0; i < 500; i++) {
		see_newtask(tasks, PARENT, CHILD + i, 0);
		snprintf(path, sizeof(path), "/%d", i * 7 % 500 / 2);
		see_attach(tasks, hierarchy < 0 ? 0 : hierarchy, CHILD + i, path);
	}
	for (int i = 0; i < 500; i++) {
		snprintf(path, sizeof(path), "/%d", i * 7 % 500 / 2);
		check(!strcmp(tasks_find(tasks, CHILD + i)->cgroup, path));
	}
	tasks_free(tasks);
}

TEST(many_tasks_are_all_found_again)
{
	struct tasks *tasks = new_tasks();

	for (int32_t i = 0; i < 20000; i++)
		see_newtask(tasks, PARENT, CHILD + i * 7, 0);
	for (int32_t i = 0; i < 20000; i++)
		check(tasks_find(tasks, CHILD + i * 7) != NULL);
	tasks_free(tasks);
}

TEST(short_and_foreign_records_teach_nothing)
{
	struct newtask record = {.type = 10, .common_pid = PARENT, .pid = CHILD, .comm = "parent"};
	struct tasks *tasks = new_tasks();

	tasks_see(tasks, &record, 20);
	record.type = 12;
	tasks_see(tasks, &record, sizeof(record));
	check(tasks_find(tasks, CHILD) == NULL);
	tasks_free(tasks);
}

TEST(a_field_beyond_the_record_is_not_read)
{
	struct tep_handle *far = tep_alloc();
	struct newtask record = {.type = 10, .common_pid = PARENT, .pid = CHILD, .comm = "parent"};
	struct newtask *alone = malloc(sizeof(record));
	struct tasks *tasks;

	check(!tep_parse_event(far, far_format, strlen(far_format), "task"));
	check(!tasks_new(&tasks, far, NULL));
	*alone = record;
	tasks_see(tasks, alone, sizeof(*alone));
	check(tasks_find(tasks, CHILD) == NULL);
	free(alone);
	tasks_free(tasks);
	tep_free(far);
}

TEST(living_threads_are_known_from_proc)
{
	struct tasks *tasks = new_tasks();

	check(!strcmp(tasks_find(tasks, getpid())->comm, "test_tasks"));
	check(tasks_find(tasks, getpid())->tgid == getpid());
	tasks_scan(tasks);
	check(tasks_find(tasks, 1)->tgid == 1);
	tasks_free(tasks);
}

static void *scan_as_a_thread(void *arg)
{
	int32_t pid = gettid();

	pthread_setname_np(pthread_self(), "another");
	tasks_scan_own(arg);
	return (void *)(intptr_t)pid;
}

/* A thread that started before any of its records, and has ended when its name is wanted. */
TEST(threads_of_this_process_learn_of_themselves)
{
	struct tasks *tasks = new_tasks();
	const struct task *task;
	pthread_t thread;
	void *pid;

	check(!pthread_create(&thread, NULL, scan_as_a_thread, tasks));
	check(!pthread_join(thread, &pid));
	task = tasks_find(tasks, (int32_t)(intptr_t)pid);
	check(task && !strcmp(task->comm, "another") && task->tgid == getpid());
	tasks_free(tasks);
}

int main(void)
{
	int failed;

	tep = tep_alloc();
	tep_parse_event(tep, newtask_format, strlen(newtask_format), "task");
	tep_parse_event(tep, rename_format, strlen(rename_format), "task");
	tep_parse_event(tep, attach_format, strlen(attach_format), "cgroup");
	failed = check_run();
	tep_free(tep);
	return failed;
}
