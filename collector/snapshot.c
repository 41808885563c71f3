// SPDX-License-Identifier: Apache-2.0
#include "snapshot.h"
#include "freeze.h"
#include "snapshot_rows.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* snapshot.bpf.c, compiled (embed.py). */
extern const unsigned char snapshot_object[];
extern const size_t snapshot_object_size;

enum {
	MAX_ATTEMPTS = 8,
	PIECE_ATTEMPTS = 6,
	LOOSE_ATTEMPTS = 2,     /* of these, so many come first that hold no CPU */
	FIRST_NODE_NS = 250,    /* guess of the time per list entry; then measured ... */
	MEASURABLE_NODES = 256, /* ... on this many entries or more */
	SPARE_NODES = 256 << 10,
	MAX_NODES = 32 << 20, /* list entries there may be room for: 256 MiB */
	GATHER_LIMIT_MS = 25, /* on top of the time that CPUs are held */
	PAGE_SIZE = 4096,
	TRIGGER_ORDER = 4, /* above the costly orders: no PCP has such pages */
	LOG_SIZE = 1 << 20,
};

/* XATTR_SIZE_MAX: getxattr() makes the kernel allocate so much in one piece, and free it. */
enum { TRIGGER_SIZE = PAGE_SIZE << TRIGGER_ORDER };

enum map_nr { CONTROL, PLACES, ZONES, PCPS, SECTIONS, NODES, NR_MAPS };

static const char *const map_names[NR_MAPS] = {
	[CONTROL] = ".bss", [PLACES] = "places",     [ZONES] = "zones",
	[PCPS] = "pcps",    [SECTIONS] = "sections", [NODES] = "nodes",
};

struct mapping {
	void *memory;
	size_t size;
};

struct snapshot {
	struct bpf_object *object;
	struct mapping maps[NR_MAPS];
	struct snapshot_images images;
	struct control *control; /* the map; images.control without const */
	struct freezer *freezer;
	uint64_t max_ns;
	unsigned int max_ms;
	uint64_t node_ns; /* measured time per list entry */
	struct snapshot_zone *zones;
	uint8_t *online;
	char *trigger_buffer;
};

/* --- what the kernel and /sys say --- */

static int read_text(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "re");
	size_t length;

	if (!file)
		return -errno;
	length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	fclose(file);
	return 0;
}

/* The value after "KEY=" at the start of a line of the note. */
static bool note_value(const char *note, const char *key, int base, __u64 *value)
{
	size_t length = strlen(key);

	for (const char *line = note; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, length) && line[length] == '=') {
			*value = strtoull(line + length + 1, NULL, base);
			return true;
		}
	}
	return false;
}

/* Set flags[n] for every n in a list such as "0-3,8". */
static void parse_cpu_list(const char *list, uint8_t *flags, uint32_t nr)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long n = first; n <= last && n < nr; n++)
			flags[n] = 1;
		list = end + (*end == ',');
	}
}

/* Order of a transparent huge page; -1 where the kernel has none. */
static int thp_order(void)
{
	char text[32];

	if (read_text("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text, sizeof(text)))
		return -1;
	return __builtin_ctzll(strtoull(text, NULL, 10) / PAGE_SIZE);
}

static int find_pageblock_order(struct error *err)
{
	static const char key[] = "Page block order:";
	char text[256];
	int ret = read_text("/proc/pagetypeinfo", text, sizeof(text));

	if (!ret && !strncmp(text, key, sizeof(key) - 1))
		return atoi(text + sizeof(key) - 1);
	ret = thp_order(); /* pagetypeinfo is for root only; with huge pages this is the same */
	return ret >= 0 ? ret
			: fail(err, ENOTSUP,
			       "cannot tell the pageblock order: /proc/pagetypeinfo is not "
			       "readable");
}

/* --- loading --- */

/* Half of the capabilities leads to errors that nobody understands: ask before. */
static bool may_load(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	uint64_t effective;

	if (syscall(SYS_capget, &header, data))
		return true; /* the kernel will tell */
	effective = data[0].effective | (uint64_t)data[1].effective << 32;
	return effective >> CAP_SYS_ADMIN & 1 ||
	       (effective >> CAP_BPF & 1 && effective >> CAP_PERFMON & 1);
}

static int capability_error(struct error *err)
{
	return fail(err, EPERM,
		    "the kernel refuses BPF programs: CAP_BPF and CAP_PERFMON are needed");
}

static int load_error(int ret, const char *log, struct error *err)
{
	const char *line = log, *end;

	if (ret == -EPERM)
		return capability_error(err);
	/* Of the verifier's log the last line but its statistics tells what it minded. */
	for (end = strstr(log, "\nprocessed "); end && line < end;) {
		const char *next = memchr(line, '\n', (size_t)(end - line));

		if (!next)
			break;
		line = next + 1;
	}
	return fail(err, ENOTSUP, "the kernel does not take the snapshot programs: %s%s%.*s",
		    strerror(-ret), end ? ": " : "", end ? (int)(end - line) : 0, line);
}

static bool is_survey(const struct bpf_program *program)
{
	return !strncmp(bpf_program__name(program), "find_", 5);
}

static int open_object(struct snapshot *s, char *log, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "pagetape", .kernel_log_buf = log,
		    .kernel_log_size = LOG_SIZE);

	libbpf_set_print(NULL);
	s->object = bpf_object__open_mem(snapshot_object, snapshot_object_size, &opts);
	return s->object ? 0
			 : fail(err, errno, "libbpf cannot read the snapshot programs: %s",
				strerror(errno));
}

static void close_object(struct snapshot *s)
{
	for (int m = 0; m < NR_MAPS; m++)
		if (s->maps[m].memory)
			munmap(s->maps[m].memory, s->maps[m].size);
	memset(s->maps, 0, sizeof(s->maps));
	bpf_object__close(s->object);
	s->object = NULL;
}

static struct bpf_map *find_map(struct snapshot *s, enum map_nr m)
{
	struct bpf_map *map = bpf_object__find_map_by_name(s->object, map_names[m]);

	assert(map);
	return map;
}

static int map_memory(struct snapshot *s, enum map_nr m, struct error *err)
{
	struct bpf_map *map = find_map(s, m);
	size_t value = (bpf_map__value_size(map) + 7) / 8 * 8;
	size_t size = (value * bpf_map__max_entries(map) + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			    bpf_map__fd(map), 0);

	if (memory == MAP_FAILED)
		return fail(err, errno, "cannot map the snapshot's '%s': %s", map_names[m],
			    strerror(errno));
	s->maps[m] = (struct mapping){memory, size};
	return 0;
}

static int load_object(struct snapshot *s, const char *log, struct error *err)
{
	int ret = bpf_object__load(s->object);

	if (ret)
		return load_error(ret, log, err);
	for (enum map_nr m = 0; m < NR_MAPS; m++) {
		ret = map_memory(s, m, err);
		if (ret)
			return ret;
	}
	s->control = s->maps[CONTROL].memory;
	s->images.control = s->control;
	s->images.places = s->maps[PLACES].memory;
	s->images.zones = s->maps[ZONES].memory;
	s->images.pcps = s->maps[PCPS].memory;
	s->images.sections = s->maps[SECTIONS].memory;
	s->images.nodes = s->maps[NODES].memory;
	return 0;
}

/* Run one of the SEC("syscall") programs. */
static void run_program(struct snapshot *s, const char *name)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	struct bpf_program *program = bpf_object__find_program_by_name(s->object, name);

	/* It cannot fail: no context, no return value, and the program was loaded. */
	assert(program);
	bpf_prog_test_run_opts(bpf_program__fd(program), &opts);
}

/* --- finding the allocator's data --- */

static int read_vmcoreinfo(struct snapshot *s, struct error *err)
{
	enum { TEXT = 24 }; /* ELF note header and name */
	struct control *c = s->control;
	unsigned long long paddr;
	__u64 nodes, section_bits;
	char text[64], *note;
	int ret = read_text("/sys/kernel/vmcoreinfo", text, sizeof(text));

	if (ret || sscanf(text, "%llx", &paddr) != 1)
		return fail(
			err, ENOTSUP,
			"no /sys/kernel/vmcoreinfo: a kernel with CONFIG_VMCORE_INFO is needed");
	c->vmcoreinfo_paddr = paddr;
	run_program(s, "find_vmcoreinfo");
	if (!c->direct_map)
		return fail(err, ENOTSUP, "vmcoreinfo is not at physical address %#llx", paddr);

	note = (char *)c->vmcoreinfo + TEXT;
	c->vmcoreinfo[sizeof(c->vmcoreinfo) - 1] = '\0';
	if (!note_value(note, "SYMBOL(mem_section)", 16, &c->mem_section) ||
	    !note_value(note, "NUMBER(SECTION_SIZE_BITS)", 10, &section_bits))
		return fail(err, ENOTSUP, "vmcoreinfo has no mem_section: not a SPARSEMEM kernel");
	c->section_shift = (uint32_t)section_bits - (uint32_t)__builtin_ctz(PAGE_SIZE);
	c->nr_nodes = 1;
	if (note_value(note, "SYMBOL(node_data)", 16, &c->node_data) &&
	    note_value(note, "LENGTH(node_data)", 10, &nodes))
		c->nr_nodes = (uint32_t)nodes;
	else if (!note_value(note, "SYMBOL(contig_page_data)", 16, &c->contig_page_data))
		return fail(err, ENOTSUP, "vmcoreinfo names no node's data");
	return 0;
}

/* The programs copy into buffers of fixed size: refuse a kernel whose structs are larger. */
static int check_layout(const struct control *c, struct error *err)
{
	const struct kernel_layout *l = &c->layout;

	if (!c->nr_zones)
		return fail(err, ENOTSUP, "no zones where vmcoreinfo says they are");
	if (!c->vmemmap)
		return fail(err, ENOTSUP, "no memory map where vmcoreinfo says it is");
	if (l->zone_size > SNAPSHOT_MAX_ZONE_SIZE || l->pcp_size > SNAPSHOT_MAX_PCP_SIZE ||
	    l->zonestat_size > SNAPSHOT_MAX_STAT_SIZE)
		return fail(err, ENOTSUP,
			    "struct zone (%u bytes), per_cpu_pages (%u) or per_cpu_zonestat (%u) "
			    "is larger than expected",
			    l->zone_size, l->pcp_size, l->zonestat_size);
	if (!l->pcp.lists.size || !l->free_list.size || !l->zone.vm_stat.size ||
	    l->NR_FREE_PAGES_ < 0 || l->MIGRATE_PCPTYPES_ <= 0)
		return fail(err, ENOTSUP, "this kernel's free lists have an unknown shape");
	return 0;
}

static uint32_t nr_sections(const struct control *c, const struct zone_place *place)
{
	return (uint32_t)(((place->start_pfn + place->spanned - 1) >> c->section_shift) -
			  (place->start_pfn >> c->section_shift) + 1);
}

/* First load: only looks around, for the sizes of the second. */
static int survey(struct snapshot *s, struct control *found, uint32_t *sections, uint64_t *entries,
		  char *log, struct error *err)
{
	struct bpf_program *program;
	int ret = open_object(s, log, err);

	if (ret)
		return ret;
	bpf_object__for_each_program(program, s->object)
		bpf_program__set_autoload(program, is_survey(program));
	bpf_map__set_max_entries(bpf_object__find_map_by_name(s->object, "percpu_offset"),
				 (uint32_t)libbpf_num_possible_cpus());
	ret = load_object(s, log, err);
	if (ret)
		return ret;
	s->control->nr_cpus = (uint32_t)libbpf_num_possible_cpus();
	ret = read_vmcoreinfo(s, err);
	if (ret)
		return ret;
	run_program(s, "find_zones");
	ret = check_layout(s->control, err);
	if (ret)
		return ret;
	*found = *s->control;
	*sections = 0;
	*entries = found->pcp_pages;
	for (uint32_t z = 0; z < found->nr_zones; z++) {
		*sections += nr_sections(found, &s->images.places[z]);
		*entries += s->images.places[z].free_blocks;
	}
	close_object(s);
	return 0;
}

/* Second load, with maps of the right size. */
static int load(struct snapshot *s, const struct control *found, uint32_t sections,
		uint64_t entries, char *log, struct error *err)
{
	int pageblock_order = find_pageblock_order(err), ret;
	struct bpf_program *program;
	uint32_t next = 0;

	if (pageblock_order < 0)
		return pageblock_order;
	ret = open_object(s, log, err);
	if (ret)
		return ret;
	bpf_object__for_each_program(program, s->object) bpf_program__set_autoload(
		program, strcmp(bpf_program__name(program), "find_vmcoreinfo"));
	entries = 2 * entries + SPARE_NODES;
	bpf_map__set_max_entries(bpf_object__find_map_by_name(s->object, "percpu_offset"),
				 found->nr_cpus);
	bpf_map__set_max_entries(find_map(s, ZONES), found->nr_zones);
	bpf_map__set_max_entries(find_map(s, PCPS), found->nr_zones * found->nr_cpus);
	bpf_map__set_max_entries(find_map(s, SECTIONS), sections);
	bpf_map__set_max_entries(find_map(s, NODES),
				 entries < MAX_NODES ? (uint32_t)entries : MAX_NODES);
	ret = load_object(s, log, err);
	if (ret)
		return ret;
	*s->control = *found;
	run_program(s, "find_zones");
	for (uint32_t z = 0; z < s->control->nr_zones; z++) {
		struct zone_place *place = &((struct zone_place *)s->maps[PLACES].memory)[z];

		place->first_section = next;
		place->nr_sections = nr_sections(s->control, place);
		next += place->nr_sections;
	}
	if (next > sections || s->control->nr_zones != found->nr_zones)
		return fail(err, ESTALE, "memory was added or removed while loading");
	s->images.pageblock_order = (unsigned int)pageblock_order;
	s->images.thp_order = thp_order() >= 0 ? (unsigned int)thp_order() : 0;
	s->control->section_bytes = ((1u << s->control->section_shift >> pageblock_order) *
					     pageblock_bits(&s->control->layout) +
				     7) /
				    8;
	if (s->control->section_bytes > SNAPSHOT_MAX_BITS)
		return fail(err, ENOTSUP, "a section has %u bytes of pageblock bits",
			    s->control->section_bytes);
	return 0;
}

int snapshot_new(struct snapshot **out, unsigned int max_ms, struct error *err)
{
	struct snapshot *s = calloc(1, sizeof(*s));
	struct control *found = malloc(sizeof(*found));
	char *log = calloc(1, LOG_SIZE);
	uint32_t sections;
	uint64_t entries;
	int ret = 0;

	*out = NULL;
	if (!s || !found || !log)
		ret = fail(err, ENOMEM, "no memory to load the snapshot programs");
	else if (!may_load())
		ret = capability_error(err);
	else if (sysconf(_SC_PAGESIZE) != PAGE_SIZE)
		ret = fail(err, ENOTSUP, "exact snapshots are made for pages of %d bytes, not %ld",
			   PAGE_SIZE, sysconf(_SC_PAGESIZE));
	else if (access("/sys/kernel/btf/vmlinux", R_OK))
		ret = fail(err, ENOTSUP,
			   "no /sys/kernel/btf/vmlinux: a kernel with CONFIG_DEBUG_INFO_BTF is "
			   "needed");
	if (!ret)
		ret = survey(s, found, &sections, &entries, log, err);
	if (!ret)
		ret = load(s, found, sections, entries, log, err);
	if (!ret)
		ret = freezer_new(&s->freezer, err);
	if (!ret) {
		s->zones = calloc(found->nr_zones, sizeof(*s->zones));
		s->online = calloc(found->nr_cpus, 1);
		s->images.online = s->online;
		s->trigger_buffer = malloc(TRIGGER_SIZE);
		if (!s->zones || !s->online || !s->trigger_buffer)
			ret = fail(err, ENOMEM, "no memory for %u zones", found->nr_zones);
	}
	free(log);
	free(found);
	if (ret) {
		snapshot_free(s);
		return ret;
	}
	s->max_ms = max_ms;
	s->max_ns = (uint64_t)max_ms * 1000000;
	s->node_ns = FIRST_NODE_NS;
	*out = s;
	return 0;
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	freezer_free(s->freezer);
	close_object(s);
	free(s->zones);
	free(s->online);
	free(s->trigger_buffer);
	free(s);
}

/* --- taking --- */

/*
 * The CPU whose allocation is likely to come from the zone with most free blocks among those
 * that can be walked under their lock in time: one of that zone's node.
 */
static int choose_cpu(const struct snapshot *s)
{
	uint64_t most = 0;
	int node = -1, nr, chosen = 0;
	const struct freezer_cpu *cpus = freezer_cpus(s->freezer, &nr);

	for (uint32_t z = 0; z < s->control->nr_zones; z++) {
		if (s->images.places[z].free_blocks < most ||
		    s->images.places[z].free_blocks * s->node_ns > s->max_ns)
			continue;
		most = s->images.places[z].free_blocks;
		node = (int)s->images.places[z].node;
	}
	for (int i = 0; i < nr; i++)
		if (cpus[i].node == node)
			chosen = i;
	return chosen;
}

struct attempt {
	struct snapshot *s;
	int tid;
	uint64_t begin_ns, held_ns;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void cut(void *arg)
{
	struct attempt *a = arg;
	struct control *c = a->s->control;

	a->begin_ns = now_ns();
	__atomic_store_n(&c->armed_tid, (uint32_t)a->tid, __ATOMIC_SEQ_CST);
	/* Which attribute it is does not matter, nor whether it exists. */
	(void)!getxattr("/", "user.pagetape", a->s->trigger_buffer, TRIGGER_SIZE);
	if (c->armed_tid) {
		c->armed_tid = 0;
		run_program(a->s, "unmarked_cut");
	}
	c->deadline_ns = c->cut_end_ns + a->s->max_ns;
}

/* The leader takes what nobody has begun: a PCP is walked by whoever comes first. */
static void walk_all(void *arg)
{
	struct attempt *a = arg;

	run_program(a->s, "walk_zones");
	run_program(a->s, "walk_own");
	run_program(a->s, "walk_pcps");
	a->held_ns = now_ns() - a->begin_ns;
}

static void walk_own(void *arg)
{
	struct attempt *a = arg;

	run_program(a->s, "walk_own");
}

static void clear_images(struct snapshot *s)
{
	struct control *c = s->control;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		s->images.zones[z].walked = 0;
		s->images.zones[z].locked = 0;
		memset(s->images.zones[z].list, 0, sizeof(s->images.zones[z].list));
	}
	for (uint32_t i = 0; i < c->nr_zones * c->nr_cpus; i++) {
		s->images.pcps[i].walked = 0;
		memset(s->images.pcps[i].list, 0, sizeof(s->images.pcps[i].list));
	}
	c->nr_nodes_used = 0;
	c->cut_zone = c->nr_zones;
	c->armed_order = TRIGGER_ORDER;
	c->max_ns = s->max_ns;
	c->node_ns = s->node_ns;
	c->cut_pfn = 0;
}

/* Time per entry, if there were enough entries to tell; else UINT64_MAX. */
static uint64_t time_per_entry(const struct list_image *lists, int nr, uint64_t ns)
{
	uint64_t entries = 0;

	for (int i = 0; i < nr; i++)
		entries += lists[i].nr;
	return entries < MEASURABLE_NODES ? UINT64_MAX : ns / entries;
}

/*
 * The next estimate: the best of the last attempt and a quarter. An average would carry over
 * what interruptions cost, and then refuse what there is time for; the walks look at the clock
 * anyway.
 */
static void learn_node_time(struct snapshot *s)
{
	uint64_t best = UINT64_MAX, ns;

	for (uint32_t z = 0; z < s->control->nr_zones; z++) {
		const struct zone_image *zi = &s->images.zones[z];

		ns = time_per_entry(zi->list, SNAPSHOT_MAX_LISTS, zi->end_ns - zi->begin_ns);
		if (zi->walked && ns < best)
			best = ns;
	}
	for (uint32_t i = 0; i < s->control->nr_zones * s->control->nr_cpus; i++) {
		const struct pcp_image *pi = &s->images.pcps[i];

		ns = time_per_entry(pi->list, SNAPSHOT_MAX_PCP_LISTS, pi->end_ns - pi->begin_ns);
		if (pi->walked && ns < best)
			best = ns;
	}
	if (best != UINT64_MAX)
		s->node_ns = best + best / 4;
}

/* Whether all there is to walk fits into the time, if nothing comes between. */
static bool fits(const struct snapshot *s)
{
	uint64_t entries = s->control->pcp_pages;

	for (uint32_t z = 0; z < s->control->nr_zones; z++)
		entries += s->images.places[z].free_blocks;
	return entries * s->node_ns <= s->max_ns;
}

/* Whether another attempt, after so many, would do no better. */
static bool attempt_settled(const struct snapshot *s, int attempts)
{
	const struct control *c = s->control;
	bool left_out = false;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		if (zone_cut_short(&s->images, z))
			left_out = true;
		else if (!(s->images.zones[z].locked ? zone_whole(&s->images, z)
						     : zone_still(&s->images, z)))
			return false;
	}
	for (uint32_t i = 0; i < c->nr_zones * c->nr_cpus; i++) {
		if (pcp_cut_short(&s->images, i))
			left_out = true;
		else if (!pcp_still(&s->images, i))
			return false;
	}
	/*
	 * There was no time for something. With a better estimate there may be, and where the
	 * machine under this one had taken the CPU away.
	 */
	return !left_out || (attempts > 1 && !fits(s));
}

static void walk_held_piece(void *arg)
{
	struct snapshot *s = arg;

	s->control->deadline_ns = now_ns() + s->max_ns;
	run_program(s, "piece");
}

static void do_nothing(void *arg)
{
	(void)arg;
}

/*
 * Walk one list until it is found unmoved. On a busy machine that takes an attempt or two with
 * the CPUs held, if the list is short enough for that.
 */
static void take_piece(struct snapshot *s, uint32_t z, uint32_t nr)
{
	const struct freezer_work held = {walk_held_piece, do_nothing, do_nothing, s};
	const struct list_image *list = &s->images.zones[z].list[nr];
	struct control *c = s->control;
	uint64_t first = c->nr_nodes_used;

	c->piece_zone = z;
	c->piece_list = nr;
	for (int attempt = 0; attempt < PIECE_ATTEMPTS; attempt++) {
		c->nr_nodes_used = first;
		if (attempt < LOOSE_ATTEMPTS) {
			c->deadline_ns = UINT64_MAX;
			run_program(s, "piece");
		} else if (list->nr * s->node_ns <= s->max_ns) {
			freezer_run(s->freezer, 0, &held, (int)s->max_ms + GATHER_LIMIT_MS);
		}
		if (list_still(&s->images, z, nr) || list->end == WALK_FULL)
			break;
	}
	c->nr_nodes_used = first + list->nr; /* give the rest of the reserve back */
}

/* Walk one zone list by list. Returns how the zone was taken. */
static enum snapshot_how take_pieces(struct snapshot *s, uint32_t z, uint32_t *moved)
{
	struct zone_image *zi = &s->images.zones[z];

	memset(zi->list, 0, sizeof(zi->list));
	zi->begin_ns = now_ns();
	for (uint32_t list = 0; list < SNAPSHOT_MAX_LISTS; list++) {
		if (!list_exists(&s->images, list))
			continue;
		take_piece(s, z, list);
		if (zi->list[list].end == WALK_FULL)
			return SNAPSHOT_REFUSED;
		if (!list_still(&s->images, z, list)) {
			zi->list[list].nr = 0;
			++*moved;
		}
	}
	zi->end_ns = now_ns();
	return SNAPSHOT_PIECES;
}

/* What an attempt cost others counts, whether it was of use or not. */
static void note_cost(struct snapshot *s, uint64_t held_ns, struct snapshot_result *out)
{
	const struct control *c = s->control;
	uint64_t lock_ns = c->cut_end_ns - c->cut_ns;

	if (held_ns > out->held_ns)
		out->held_ns = held_ns;
	if (c->cut_zone < c->nr_zones && lock_ns > s->zones[c->cut_zone].lock_ns)
		s->zones[c->cut_zone].lock_ns = lock_ns;
}

/* Say how each zone was taken, and take what the attempts could not. */
static void settle(struct snapshot *s)
{
	const struct control *c = s->control;

	for (uint32_t z = 0; z < c->nr_zones; z++) {
		struct snapshot_zone *zone = &s->zones[z];
		const struct zone_image *zi = &s->images.zones[z];

		if (zi->walked && zi->locked && zone_whole(&s->images, z))
			zone->how = SNAPSHOT_LOCKED;
		else if (zi->walked && zone_still(&s->images, z))
			zone->how = SNAPSHOT_STILL;
		else
			zone->how = take_pieces(s, z, &zone->lists_moved);
		for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++) {
			uint32_t i = z * c->nr_cpus + cpu;

			if (pcp_cut_short(&s->images, i))
				zone->pcps_refused++;
			else if (!pcp_still(&s->images, i))
				zone->pcps_moved++;
		}
	}
}

/* Fresh counters; memory must be where it was when the maps were sized. */
static int refresh(struct snapshot *s, struct error *err)
{
	uint32_t zones = s->control->nr_zones;
	char text[4096];

	run_program(s, "find_zones");
	if (s->control->nr_zones != zones)
		return fail(err, ESTALE,
			    "memory was added or removed since the snapshot was loaded");
	for (uint32_t z = 0; z < zones; z++)
		if (nr_sections(s->control, &s->images.places[z]) !=
		    s->images.places[z].nr_sections)
			return fail(err, ESTALE,
				    "memory was added or removed since the snapshot was loaded");
	memset(s->online, 0, s->control->nr_cpus);
	if (!read_text("/sys/devices/system/cpu/online", text, sizeof(text)))
		parse_cpu_list(text, s->online, s->control->nr_cpus);
	return 0;
}

int snapshot_take(struct snapshot *s, uint16_t nr, struct snapshot_result *out, struct error *err)
{
	struct control *c = s->control;
	struct bpf_link *link;
	int ret = refresh(s, err);

	if (ret)
		return ret;
	/* Only now: attached, the program would cost every other allocation a little. */
	link = bpf_program__attach(bpf_object__find_program_by_name(s->object, "cut"));
	if (!link)
		return fail(err, errno, "cannot attach to mm_page_alloc_zone_locked: %s",
			    strerror(errno));
	*out = (struct snapshot_result){0};
	memset(s->zones, 0, c->nr_zones * sizeof(*s->zones));
	do {
		int cpu = choose_cpu(s), nr_cpus;
		const struct freezer_cpu *cpus = freezer_cpus(s->freezer, &nr_cpus);
		struct attempt attempt = {.s = s, .tid = cpus[cpu].tid};
		const struct freezer_work work = {cut, walk_all, walk_own, &attempt};

		clear_images(s);
		out->held =
			freezer_run(s->freezer, cpu, &work, (int)(2 * s->max_ms + GATHER_LIMIT_MS));
		out->cut_tid = attempt.tid;
		out->attempts++;
		note_cost(s, attempt.held_ns, out);
		learn_node_time(s);
	} while (!attempt_settled(s, out->attempts) && out->attempts < MAX_ATTEMPTS);
	bpf_link__destroy(link);

	for (uint32_t cpu = 0; cpu < c->nr_cpus; cpu++)
		out->cpus += s->online[cpu];
	out->cut_ns = c->cut_ns;
	out->cut_pfn = c->cut_pfn;
	out->marked = c->cut_pfn != 0;
	out->cut_cpu = (int)c->cut_cpu;
	out->cut_order = (int)c->armed_order;
	settle(s);
	out->nr_zones = c->nr_zones;
	out->zones = s->zones;
	return snapshot_rows(&s->images, nr, s->zones, out, err);
}
