// SPDX-License-Identifier: Apache-2.0
/*
 * Exact snapshots of the running kernel, under load. Skipped where it refuses BPF. It needs only
 * this binary, so it can run in a guest: see guest-snapshot.
 */
#include "check.h"
#include "snapshot/snapshot_internal.h"

#include <bpf/bpf.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SNAPSHOTS = 20, MAX_US = 200, LOADS = 2, LOAD_BYTES = 4 << 20 };

static void map_touch_unmap(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		char *memory = mmap(NULL, LOAD_BYTES, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (memory == MAP_FAILED)
			_exit(1);
		for (size_t i = 0; i < LOAD_BYTES; i += 4096)
			memory[i] = 1;
		munmap(memory, LOAD_BYTES);
	}
}

static void start_load(pid_t pids[LOADS])
{
	for (int i = 0; i < LOADS; i++) {
		pids[i] = fork();
		if (!pids[i])
			map_touch_unmap();
	}
}

static void stop_load(const pid_t pids[LOADS])
{
	for (int i = 0; i < LOADS; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
}

static void print_result(const struct snapshot_result *r)
{
	printf("# %s: %d of %d CPUs held %.3f ms, attempts %d, meetings %d; wrong %llu of %llu "
	       "sums, "
	       "%llu of %llu counters, %llu of %llu pcp sums, %llu of %llu types, %llu of %llu "
	       "places\n",
	       r->exact ? "exact" : "NOT exact", r->held, r->cpus, (double)r->held_ns / 1e6,
	       r->attempts, r->meetings, (unsigned long long)r->checks.list_sums_wrong,
	       (unsigned long long)r->checks.list_sums,
	       (unsigned long long)r->checks.free_counters_wrong,
	       (unsigned long long)r->checks.free_counters,
	       (unsigned long long)r->checks.pcp_sums_wrong, (unsigned long long)r->checks.pcp_sums,
	       (unsigned long long)r->checks.list_types_wrong,
	       (unsigned long long)r->checks.list_types, (unsigned long long)r->checks.places_wrong,
	       (unsigned long long)r->checks.places);
	for (uint32_t z = 0; z < r->nr_zones; z++)
		printf("#   node %d zone %d: %llu blocks in %.3f ms, lock held %.3f ms\n",
		       r->zones[z].node, r->zones[z].zone,
		       (unsigned long long)r->zones[z].free_blocks,
		       (double)r->zones[z].copy_ns / 1e6, (double)r->zones[z].lock_ns / 1e6);
}

static uint64_t nr_wrong(const struct snapshot_checks *c)
{
	return c->list_sums_wrong + c->free_counters_wrong + c->pcp_sums_wrong +
	       c->list_types_wrong + c->places_wrong;
}

static void release(struct snapshot_result *r)
{
	for (int t = 0; t < SNAPSHOT_TABLES; t++)
		batch_free(r->tables[t]);
}

/* A hypervisor or another task may hold a CPU for longer than MAX_US: then a snapshot says that it
 * is not exact. At least one must be, and what an exact one holds must be right. */
TEST(snapshots_under_load_are_exact_or_say_so)
{
	struct snapshot *snapshot;
	pid_t load[LOADS];
	int exact = 0;

	check(snapshot_new(&snapshot, NULL) == 0);
	start_load(load);
	usleep(200000);
	for (uint16_t i = 0; i < SNAPSHOTS; i++) {
		struct snapshot_result result;

		check(snapshot_take(snapshot, i, MAX_US, &result, NULL) == 0);
		print_result(&result);
		check(nr_wrong(&result.checks) == 0);
		check(!result.exact || result.checks.list_sums > 0);
		exact += result.exact;
		release(&result);
	}
	stop_load(load);
	printf("# %d of %d exact\n", exact, SNAPSHOTS);
	check(exact > 0);
	snapshot_free(snapshot);
}

/* As for lists that have outgrown the maps. */
TEST(programs_that_are_loaded_again_have_more_room)
{
	struct snapshot_result result;
	struct snapshot *snapshot;
	uint64_t room;

	check(snapshot_new(&snapshot, NULL) == 0);
	room = snapshot->control->max_nodes;
	check(snapshot_load(snapshot, 4, NULL) == 0);
	check(snapshot->control->max_nodes > room);
	check(snapshot_take(snapshot, 0, MAX_US, &result, NULL) == 0);
	print_result(&result);
	check(nr_wrong(&result.checks) == 0 && result.nr_zones > 0);
	release(&result);
	snapshot_free(snapshot);
}

/* No CPU wakes up at the very moment of a meeting. */
TEST(with_no_time_allowed_nothing_is_taken)
{
	struct snapshot_result result;
	struct snapshot *snapshot;

	check(snapshot_new(&snapshot, NULL) == 0);
	check(snapshot_take(snapshot, 0, 0, &result, NULL) == 0);
	print_result(&result);
	check(!result.taken && !result.exact && result.nr_zones > 0);
	release(&result);
	snapshot_free(snapshot);
}

/* What the verifier stores grows with the instructions that it looks at: on Linux 7.3, one
 * program of 690,000 took 600 MB of the kernel's memory. The programs of today take 1 MB. */
TEST(the_verifier_has_little_work)
{
	enum { MOST = 20000 };
	struct bpf_program *program;
	struct snapshot *snapshot;
	int loaded = 0;

	check(snapshot_new(&snapshot, NULL) == 0);
	bpf_object__for_each_program(program, snapshot->object)
	{
		struct bpf_prog_info info = {0};
		__u32 size = sizeof(info);

		if (!bpf_program__autoload(program))
			continue;
		check(bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) == 0);
		printf("# %s: %u instructions verified\n", bpf_program__name(program),
		       info.verified_insns);
		check(info.verified_insns > 0 && info.verified_insns < MOST);
		loaded++;
	}
	check(loaded > 5);
	snapshot_free(snapshot);
}

int main(void)
{
	struct error err = {""};
	struct snapshot *snapshot;

	if (snapshot_new(&snapshot, &err)) {
		printf("1..0 # SKIP %s\n", err.msg);
		return 0;
	}
	snapshot_free(snapshot);
	return check_run();
}
