// SPDX-License-Identifier: Apache-2.0
#include "printed.h"

#include "snapshot_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* printed.bpf.c, compiled (embed.py). */
extern const unsigned char printed_object[];
extern const size_t printed_object_size;

enum { MAX_PRINTING = 6 };

struct printed {
	struct bpf_object *object;
	struct bpf_link *links[MAX_PRINTING];
	char *log; /* while it loads */
};

/* Use a map of the snapshot's programs. */
static int share(struct printed *p, const struct snapshot *s, const char *name)
{
	struct bpf_map *theirs = bpf_object__find_map_by_name(s->object, name);
	struct bpf_map *ours = bpf_object__find_map_by_name(p->object, name);

	return theirs && ours ? bpf_map__reuse_fd(ours, bpf_map__fd(theirs)) : -ENOENT;
}

static bool is_wanted(const struct bpf_program *program, const struct printed_wanted *wanted)
{
	return strcmp(bpf_program__name(program), "report_free") ? wanted->stamps : wanted->frees;
}

static int load(struct printed *p, const struct snapshot *s, const struct printed_wanted *wanted,
		struct error *err)
{
	const struct printed_constants constants = {wanted->listed, s->control->vmemmap,
						    s->control->nr_zones, s->control->thp_order,
						    wanted->token};
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "pagetape_print",
		    .kernel_log_buf = p->log, .kernel_log_size = SNAPSHOT_LOG_SIZE);
	struct bpf_program *program;
	struct bpf_map *map;
	int ret;

	libbpf_set_print(NULL);
	p->object = bpf_object__open_mem(printed_object, printed_object_size, &opts);
	if (!p->object)
		return fail(err, errno, "libbpf cannot read the programs that print: %s",
			    strerror(errno));
	map = bpf_object__find_map_by_name(p->object, ".rodata.constants");
	if (!map || bpf_map__set_initial_value(map, &constants, sizeof(constants)) ||
	    share(p, s, "places") || share(p, s, "percpu_offset"))
		return fail(err, ENOTSUP, "libbpf does not know the constants of the programs");
	bpf_map__set_max_entries(bpf_object__find_map_by_name(p->object, "last_zones"),
				 NR_LAST * s->control->nr_cpus);
	bpf_object__for_each_program(program, p->object)
		bpf_program__set_autoload(program, is_wanted(program, wanted));
	ret = bpf_object__load(p->object);
	return ret ? snapshot_load_error(ret, p->log, err) : 0;
}

static int attach(struct printed *p, struct error *err)
{
	struct bpf_program *program;
	int nr = 0;

	bpf_object__for_each_program(program, p->object)
	{
		if (!bpf_program__autoload(program))
			continue;
		p->links[nr] = bpf_program__attach(program);
		if (!p->links[nr] && errno == ENOENT) /* an event of compaction, 6.3 and later */
			continue;
		if (!p->links[nr++])
			return fail(err, ENOTSUP, "cannot attach %s: %s",
				    bpf_program__name(program), strerror(errno));
	}
	return 0;
}

int printed_new(struct printed **out, const struct snapshot *s, const struct printed_wanted *wanted,
		struct error *err)
{
	struct printed *p = calloc(1, sizeof(*p));
	int ret;

	*out = NULL;
	if (!p || !(p->log = calloc(1, SNAPSHOT_LOG_SIZE)))
		ret = fail(err, ENOMEM, "no memory for the programs that print");
	else
		ret = load(p, s, wanted, err);
	ret = ret ?: attach(p, err);
	if (p) {
		free(p->log);
		p->log = NULL;
	}
	if (ret) {
		printed_free(p);
		return ret;
	}
	*out = p;
	return 0;
}

void printed_free(struct printed *p)
{
	if (!p)
		return;
	for (int i = 0; i < MAX_PRINTING; i++)
		bpf_link__destroy(p->links[i]);
	bpf_object__close(p->object);
	free(p);
}
