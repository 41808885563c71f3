// SPDX-License-Identifier: Apache-2.0
#include "frees.h"

#include "snapshot_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* frees.bpf.c, compiled (embed.py). */
extern const unsigned char frees_object[];
extern const size_t frees_object_size;

struct frees {
	struct bpf_object *object;
	struct bpf_link *link;
};

/* Use a map of the snapshot's programs. */
static int share(struct frees *f, const struct snapshot *s, const char *name)
{
	struct bpf_map *theirs = bpf_object__find_map_by_name(s->object, name);
	struct bpf_map *ours = bpf_object__find_map_by_name(f->object, name);

	return theirs && ours ? bpf_map__reuse_fd(ours, bpf_map__fd(theirs)) : -ENOENT;
}

static int load(struct frees *f, const struct snapshot *s, uint64_t listed, struct error *err)
{
	const struct free_constants constants = {listed, s->control->vmemmap, s->control->nr_zones};
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "pagetape_free");
	struct bpf_program *program;
	struct bpf_map *map;

	libbpf_set_print(NULL);
	f->object = bpf_object__open_mem(frees_object, frees_object_size, &opts);
	if (!f->object)
		return fail(err, errno, "libbpf cannot read the program on frees: %s",
			    strerror(errno));
	map = bpf_object__find_map_by_name(f->object, ".rodata.frees");
	program = bpf_object__find_program_by_name(f->object, "report_free");
	if (!map || !program || bpf_map__set_initial_value(map, &constants, sizeof(constants)) ||
	    share(f, s, "places") || share(f, s, "percpu_offset"))
		return fail(err, ENOTSUP, "libbpf does not know the constants of the program");
	if (bpf_object__load(f->object))
		return fail(err, ENOTSUP, "the kernel rejects the program on frees: %s",
			    strerror(errno));
	f->link = bpf_program__attach(program);
	return f->link ? 0
		       : fail(err, ENOTSUP, "cannot attach to mm_page_free: %s", strerror(errno));
}

int frees_new(struct frees **out, const struct snapshot *s, uint64_t listed, struct error *err)
{
	struct frees *f = calloc(1, sizeof(*f));
	int ret = f ? load(f, s, listed, err) : fail(err, ENOMEM, "no memory to report frees");

	*out = NULL;
	if (ret) {
		frees_free(f);
		return ret;
	}
	*out = f;
	return 0;
}

void frees_free(struct frees *f)
{
	if (!f)
		return;
	bpf_link__destroy(f->link);
	bpf_object__close(f->object);
	free(f);
}
