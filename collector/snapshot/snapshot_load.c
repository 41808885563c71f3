// SPDX-License-Identifier: Apache-2.0
/* Loads the BPF programs of snapshots, and says why they cannot be had. */
#include "snapshot_blocks.h"
#include "snapshot_internal.h"
#include "input/thread.h"

#include <assert.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* snapshot.bpf.c, compiled (embed.py). */
extern const unsigned char snapshot_object[];
extern const size_t snapshot_object_size;

enum {
	SPARE_NODES = 256 << 10,
	MAX_NODES = 32 << 20, /* most list entries: 256 MiB */
	MAX_CLAIMS = 16 << 10,
};

/* What the sizes of the maps depend on. */
struct sizes {
	uint32_t sections;     /* of all zones */
	uint32_t last_section; /* its number */
	uint64_t entries;      /* of all lists, when they were counted */
};

static const char *const map_names[NR_MAPS] = {
	[CONTROL] = ".bss",        [PLACES] = "places",
	[ZONES] = "zones",         [PCPS] = "pcps",
	[SECTIONS] = "sections",   [NODES] = "nodes",
	[PAGE_BITS] = "page_bits", [SECTION_BITS] = "section_bits",
	[TOUCHES] = "touches",     [CLAIMS] = "claims",
	[SEGMENTS] = "segments",
};

int snapshot_read_text(const char *path, char *text, size_t size)
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

/* Order of a transparent huge page; -1 where the kernel has none. */
static int thp_order(void)
{
	char text[32];

	if (snapshot_read_text("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text,
			       sizeof(text)))
		return -1;
	return __builtin_ctzll(strtoull(text, NULL, 10) / PAGE_SIZE);
}

static int find_pageblock_order(struct error *err)
{
	static const char key[] = "Page block order:";
	char text[256];
	int ret = snapshot_read_text("/proc/pagetypeinfo", text, sizeof(text));

	if (!ret && !strncmp(text, key, sizeof(key) - 1))
		return atoi(text + sizeof(key) - 1);
	ret = thp_order(); /* pagetypeinfo needs root; with huge pages the value is the same */
	return ret >= 0 ? ret
			: fail(err, ENOTSUP,
			       "unknown pageblock order: /proc/pagetypeinfo is not readable");
}

/* With only half of the capabilities, loading gives obscure errors: check before. */
static bool may_load(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	uint64_t effective;

	if (syscall(SYS_capget, &header, data))
		return true; /* ignore an error: loading reports it */
	effective = data[0].effective | (uint64_t)data[1].effective << 32;
	return effective >> CAP_SYS_ADMIN & 1 ||
	       (effective >> CAP_BPF & 1 && effective >> CAP_PERFMON & 1);
}

static int capability_error(struct error *err)
{
	return fail(err, EPERM,
		    "the kernel refuses BPF programs: CAP_BPF and CAP_PERFMON are needed");
}

int snapshot_load_error(int ret, const char *log, struct error *err)
{
	const char *line = log, *end;

	if (ret == -EPERM && !may_load())
		return capability_error(err);
	/* The verifier's reason is the last line of its log before the statistics. */
	for (end = strstr(log, "\nprocessed "); end && line < end;) {
		const char *next = memchr(line, '\n', (size_t)(end - line));

		if (!next)
			break;
		line = next + 1;
	}
	return fail(err, ENOTSUP, "the kernel rejects the BPF programs: %s%s%.*s", strerror(-ret),
		    end ? ": " : "", end ? (int)(end - line) : 0, line);
}

static bool is_first_load(const struct bpf_program *program)
{
	return !strncmp(bpf_program__name(program), "find_", 5);
}

static int open_object(struct snapshot *s, char *log, struct error *err)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "pagetape", .kernel_log_buf = log,
		    .kernel_log_size = SNAPSHOT_LOG_SIZE);

	libbpf_set_print(NULL);
	s->object = bpf_object__open_mem(snapshot_object, snapshot_object_size, &opts);
	return s->object ? 0
			 : fail(err, errno, "libbpf cannot read the snapshot programs: %s",
				strerror(errno));
}

void snapshot_unload(struct snapshot *s)
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
		return snapshot_load_error(ret, log, err);
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

void snapshot_run(struct snapshot *s, const char *name)
{
	snapshot_run_with(s, name, NULL, 0);
}

void snapshot_run_with(struct snapshot *s, const char *name, void *context, size_t size)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = context, .ctx_size_in = (uint32_t)size);
	struct bpf_program *program = bpf_object__find_program_by_name(s->object, name);

	/* It cannot fail: no return value, and the program was loaded. */
	assert(program);
	bpf_prog_test_run_opts(bpf_program__fd(program), &opts);
}

uint64_t snapshot_now_ns(void)
{
	return monotonic_ns();
}

static int read_vmcoreinfo(struct snapshot *s, struct error *err)
{
	enum { TEXT = 24 }; /* ELF note header and name */
	struct control *c = s->control;
	unsigned long long paddr;
	__u64 nodes, section_bits;
	char text[64], *note;
	int ret = snapshot_read_text("/sys/kernel/vmcoreinfo", text, sizeof(text));

	if (ret || sscanf(text, "%llx", &paddr) != 1)
		return fail(
			err, ENOTSUP,
			"no /sys/kernel/vmcoreinfo: a kernel with CONFIG_VMCORE_INFO is needed");
	c->vmcoreinfo_paddr = paddr;
	snapshot_run(s, "find_vmcoreinfo");
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
		return fail(err, ENOTSUP, "vmcoreinfo has neither node_data nor contig_page_data");
	return 0;
}

/* The programs copy into buffers of fixed size: reject a kernel with larger structs. */
static int check_layout(const struct control *c, struct error *err)
{
	const struct kernel_layout *l = &c->layout;

	if (!c->nr_zones)
		return fail(err, ENOTSUP, "no zones where vmcoreinfo says they are");
	if (l->sleeping_locks)
		return fail(err, ENOTSUP,
			    "no exact snapshots on a kernel with PREEMPT_RT: its zone locks keep "
			    "neither interrupts nor other tasks away");
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

uint32_t snapshot_sections(const struct control *c, const struct zone_place *place)
{
	return (uint32_t)(((place->start_pfn + place->spanned - 1) >> c->section_shift) -
			  (place->start_pfn >> c->section_shift) + 1);
}

static void size_cpu_maps(struct snapshot *s, uint32_t cpus)
{
	bpf_map__set_max_entries(bpf_object__find_map_by_name(s->object, "percpu_offset"), cpus);
	bpf_map__set_max_entries(bpf_object__find_map_by_name(s->object, "last_zones"),
				 NR_LAST * cpus);
}

/* First load: finds the map sizes of the second load. */
static int find_sizes(struct snapshot *s, struct control *found, struct sizes *sizes, char *log,
		      struct error *err)
{
	struct bpf_program *program;
	int ret = open_object(s, log, err);

	if (ret)
		return ret;
	bpf_object__for_each_program(program, s->object)
		bpf_program__set_autoload(program, is_first_load(program));
	size_cpu_maps(s, (uint32_t)libbpf_num_possible_cpus());
	ret = load_object(s, log, err);
	if (ret)
		return ret;
	s->control->nr_cpus = (uint32_t)libbpf_num_possible_cpus();
	ret = read_vmcoreinfo(s, err);
	if (ret)
		return ret;
	snapshot_run(s, "find_zones");
	ret = check_layout(s->control, err);
	if (ret)
		return ret;
	*found = *s->control;
	*sizes = (struct sizes){.entries = found->pcp_pages};
	for (uint32_t z = 0; z < found->nr_zones; z++) {
		const struct zone_place *place = &s->images.places[z];
		uint32_t last =
			(uint32_t)((place->start_pfn + place->spanned - 1) >> found->section_shift);

		sizes->sections += snapshot_sections(found, place);
		sizes->entries += place->free_blocks;
		sizes->last_section = last > sizes->last_section ? last : sizes->last_section;
	}
	snapshot_unload(s);
	return 0;
}

/* The programs on events; all of them are on tracepoints of the page allocator. */
static const struct {
	const char *program, *tracepoint;
	bool required;
} events[MAX_EVENTS] = {
	{"cut_precopied", "mm_page_alloc_zone_locked", true},
	{"touch_freed", "mm_page_free", true},
	{"touch_drained", "mm_page_pcpu_drain", true},
	{"touch_claimed", "mm_page_alloc_extfrag", true},
	/* Only kernels with CONFIG_COMPACTION have it, and only they isolate free pages. */
	{"touch_isolated", "mm_compaction_isolate_freepages", false},
};

static bool has_tracepoint(const char *name)
{
	struct btf *btf = btf__load_vmlinux_btf();
	char type[64];
	bool found;

	snprintf(type, sizeof(type), "btf_trace_%s", name);
	found = btf && btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF) > 0;
	btf__free(btf);
	return found;
}

static void choose_programs(struct snapshot *s)
{
	bpf_program__set_autoload(bpf_object__find_program_by_name(s->object, "find_vmcoreinfo"),
				  false);
	for (int i = 0; i < MAX_EVENTS; i++)
		bpf_program__set_autoload(
			bpf_object__find_program_by_name(s->object, events[i].program),
			events[i].required || has_tracepoint(events[i].tracepoint));
}

int snapshot_attach(struct snapshot *s, struct bpf_link *links[MAX_EVENTS], struct error *err)
{
	for (int i = 0; i < MAX_EVENTS; i++) {
		struct bpf_program *program =
			bpf_object__find_program_by_name(s->object, events[i].program);

		if (!bpf_program__autoload(program))
			continue;
		links[i] = bpf_program__attach(program);
		if (links[i])
			continue;
		for (int other = 0; other < i; other++)
			bpf_link__destroy(links[other]);
		return fail(err, errno, "cannot attach to %s: %s", events[i].tracepoint,
			    strerror(errno));
	}
	return 0;
}

/* Pages of a section that one element of page_bits has. */
enum { PAGES_OF_BITS = 64 };

static uint32_t bits_of_section(const struct control *c)
{
	return (uint32_t)((1ull << c->section_shift) / PAGES_OF_BITS);
}

/* The maps of pages and of parts of lists. */
static void size_list_maps(struct snapshot *s, const struct control *found,
			   const struct sizes *sizes)
{
	uint64_t lists =
		found->nr_zones * (SNAPSHOT_MAX_LISTS + found->nr_cpus * SNAPSHOT_MAX_PCP_LISTS);

	bpf_map__set_max_entries(find_map(s, PAGE_BITS), sizes->sections * bits_of_section(found));
	bpf_map__set_max_entries(find_map(s, SECTION_BITS), sizes->last_section + 1);
	bpf_map__set_max_entries(find_map(s, TOUCHES),
				 (uint32_t)(SPARE_NODES + sizes->entries / 4));
	bpf_map__set_max_entries(find_map(s, CLAIMS), MAX_CLAIMS);
	bpf_map__set_max_entries(find_map(s, SEGMENTS), (uint32_t)(8 * lists + MAX_CLAIMS));
}

/* Give each section its part of page_bits. */
static void place_sections(struct snapshot *s)
{
	struct control *c = s->control;
	uint64_t *first = s->maps[SECTION_BITS].memory;
	uint64_t next = 0;

	for (uint32_t i = 0; i < bpf_map__max_entries(find_map(s, SECTION_BITS)); i++)
		first[i] = SNAPSHOT_NO_SECTION;
	for (uint32_t z = 0; z < c->nr_zones; z++) {
		const struct zone_place *place = &s->images.places[z];
		uint64_t section = place->start_pfn >> c->section_shift;

		for (uint32_t i = 0; i < place->nr_sections; i++) {
			if (first[section + i] != SNAPSHOT_NO_SECTION)
				continue;
			first[section + i] = next;
			next += bits_of_section(c);
		}
	}
	c->max_nodes = bpf_map__max_entries(find_map(s, NODES));
	c->max_touches = bpf_map__max_entries(find_map(s, TOUCHES));
	c->max_claims = bpf_map__max_entries(find_map(s, CLAIMS));
	c->max_segments = bpf_map__max_entries(find_map(s, SEGMENTS));
	c->pageblock_order = s->images.pageblock_order;
	c->block_bits = pageblock_bits(&c->layout);
	c->thp_order = s->images.thp_order;
}

uint64_t snapshot_room(uint64_t entries)
{
	uint64_t nodes = 2 * entries + SPARE_NODES;

	return nodes < MAX_NODES ? nodes : MAX_NODES;
}

/* Second load, with maps of the right size. */
static int load(struct snapshot *s, const struct control *found, const struct sizes *sizes,
		char *log, struct error *err)
{
	int pageblock_order = find_pageblock_order(err), ret;
	uint32_t next = 0;

	if (pageblock_order < 0)
		return pageblock_order;
	ret = open_object(s, log, err);
	if (ret)
		return ret;
	choose_programs(s);
	size_cpu_maps(s, found->nr_cpus);
	bpf_map__set_max_entries(find_map(s, ZONES), found->nr_zones);
	bpf_map__set_max_entries(find_map(s, PCPS), found->nr_zones * found->nr_cpus);
	bpf_map__set_max_entries(find_map(s, SECTIONS), sizes->sections);
	bpf_map__set_max_entries(find_map(s, NODES), (uint32_t)snapshot_room(sizes->entries));
	size_list_maps(s, found, sizes);
	ret = load_object(s, log, err);
	if (ret)
		return ret;
	*s->control = *found;
	snapshot_run(s, "find_zones");
	for (uint32_t z = 0; z < s->control->nr_zones; z++) {
		struct zone_place *place = &((struct zone_place *)s->maps[PLACES].memory)[z];

		place->first_section = next;
		place->nr_sections = snapshot_sections(s->control, place);
		place->number = zone_number(&s->images, place->index);
		next += place->nr_sections;
	}
	if (next > sizes->sections || s->control->nr_zones != found->nr_zones)
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
	place_sections(s);
	return 0;
}

/* Both loads, into `fresh`. */
static int load_anew(struct snapshot *fresh, unsigned int times, struct error *err)
{
	struct control *found = malloc(sizeof(*found));
	char *log = calloc(1, SNAPSHOT_LOG_SIZE);
	struct sizes sizes = {0};
	int ret;

	if (!found || !log)
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
	else
		ret = find_sizes(fresh, found, &sizes, log, err);
	if (!ret) {
		sizes.entries *= times;
		ret = load(fresh, found, &sizes, log, err);
	}
	if (!ret) {
		fresh->zones = calloc(found->nr_zones, sizeof(*fresh->zones));
		if (!fresh->zones)
			ret = fail(err, ENOMEM, "no memory for %u zones", found->nr_zones);
	}
	free(log);
	free(found);
	return ret;
}

int snapshot_load(struct snapshot *s, unsigned int times, struct error *err)
{
	struct snapshot fresh = {0};
	int ret = load_anew(&fresh, times, err);

	if (ret) {
		snapshot_unload(&fresh);
		return ret;
	}
	snapshot_unload(s);
	free(s->zones);
	s->object = fresh.object;
	s->control = fresh.control;
	s->zones = fresh.zones;
	s->images = fresh.images;
	s->images.online = s->online;
	memcpy(s->maps, fresh.maps, sizeof(s->maps));
	return 0;
}
