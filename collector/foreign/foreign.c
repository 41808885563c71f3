// SPDX-License-Identifier: Apache-2.0
#include "decode/wall_clock.h"
#include "foreign_internal.h"
#include "input/regular.h"
#include "protobuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *decode_thread(void *arg)
{
	struct foreign *f = arg;
	struct error err;
	int ret = foreign_merge(f, &err);

	for (size_t i = 0; i < f->source.nr_rings && !ret; i++)
		ret = foreign_lose_untimed(f, i, &err);
	ret = ret ?: source_flush(&f->source, &err);
	source_end(&f->source, ret, &err);
	return NULL;
}

static int map(struct foreign *f, struct error *err)
{
	struct stat st = {0};
	int fd = regular_open(f->path, 0, &st, err);
	void *data = MAP_FAILED;

	if (fd < 0)
		return fd;
	if (st.st_size)
		data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (!st.st_size)
		return fail(err, EBADMSG, "%s: empty", f->path);
	if (data == MAP_FAILED)
		return fail(err, errno, "%s: cannot map it: %s", f->path, strerror(errno));
	f->data = data;
	f->size = (uint64_t)st.st_size;
	madvise(data, f->size, MADV_SEQUENTIAL);
	return 0;
}

/* A row of fields 1 that are messages: the packets of a Perfetto trace. */
static bool is_perfetto(const struct foreign *f)
{
	struct span trace = foreign_span(f);
	struct pb_field field;
	int packets = 0;

	while (packets < 16 && pb_next(&trace, &field)) {
		if (field.number != 1 || !field.is_bytes)
			return false;
		packets++;
	}
	return packets > 1 || (packets == 1 && trace.at == trace.end);
}

static const struct reader *reader_of(const struct foreign *f)
{
	if (f->size >= 8 && (!memcmp(f->data, "PERFILE2", 8) || !memcmp(f->data, "2ELIFREP", 8) ||
			     !memcmp(f->data, "PERFFILE", 8)))
		return &perf_reader;
	if (is_perfetto(f))
		return &perfetto_reader;
	return &text_reader;
}

static uint64_t first_ts(const struct foreign *f)
{
	uint64_t first = f->nr_parts ? f->parts[0].first_ts : 0;

	for (size_t i = 1; i < f->nr_parts; i++)
		first = f->parts[i].first_ts < first ? f->parts[i].first_ts : first;
	return first;
}

int foreign_open(struct foreign **out, const char *path, struct error *err)
{
	struct foreign *f = calloc(1, sizeof(*f));
	int ret;

	*out = NULL;
	if (!f)
		return fail(err, ENOMEM, "no memory to read %s", path);
	tep_set_loglevel(TEP_LOG_NONE);
	source_init(&f->source);
	f->facts.overwritten = UNKNOWN_COUNT;
	f->path = strdup(path);
	f->ring_of = malloc(DECODER_CPUS * sizeof(*f->ring_of));
	f->source.tep = tep_alloc();
	ret = f->path && f->ring_of && f->source.tep
		      ? 0
		      : fail(err, ENOMEM, "no memory to read %s", path);
	if (!ret) {
		memset(f->ring_of, 0xff, DECODER_CPUS * sizeof(*f->ring_of));
		tep_set_long_size(f->source.tep, sizeof(long));
		ret = map(f, err);
	}
	if (!ret) {
		f->reader = reader_of(f);
		ret = f->reader->survey(f, err);
		if (!ret && f->names)
			f->symbols = stack_names_text(f->names);
		f->facts.has_symbols = f->symbols && *f->symbols;
		f->facts.began = wall_clock(first_ts(f), f->to_wall);
		ret = ret ?: foreign_chain(f, err);
	}
	if (ret) {
		foreign_close(f);
		return ret;
	}
	*out = f;
	return 0;
}

static int start(struct foreign *f, struct error *err)
{
	int ret = -pthread_create(&f->thread, NULL, decode_thread, f);

	f->started = !ret;
	return ret ? fail(err, -ret, "%s: cannot start a thread: %s", f->path, strerror(-ret)) : 0;
}

int foreign_begin(struct foreign *f, const struct foreign_names *names, struct error *err)
{
	struct decoder_names of_kernel = names->decoder;
	struct error why;
	int ret = f->reader->begin(f, names, err);

	ret = ret ?: foreign_stack_format(f, err);
	for (size_t i = 0; i < f->comm_slots && !ret; i++)
		if (f->comms[i].pid &&
		    tep_register_comm(f->source.tep, f->comms[i].comm, f->comms[i].pid))
			ret = fail(err, ENOMEM, "no memory for the names of the threads");
	if (ret)
		return ret;
	if (f->shapes)
		of_kernel.addresses.vmstat_update = SHAPE_VMSTAT_UPDATE;
	ret = decoder_new(&f->source.decoder, f->source.tep, &of_kernel, SOURCE_ROWS, &why);
	if (ret)
		return fail(err, -ret, "%s: %s", f->path, why.msg);
	return start(f, err);
}

void foreign_close(struct foreign *f)
{
	struct tep_handle *tep;

	if (!f)
		return;
	if (f->started) {
		source_cancel(&f->source);
		pthread_join(f->thread, NULL);
	}
	if (f->reader)
		f->reader->close(f);
	tep = f->source.tep;
	source_destroy(&f->source);
	tep_free(tep);
	shapes_free(f->shapes);
	free(f->source.rings);
	free(f->waiting);
	free(f->untimed);
	free(f->ring_of);
	free(f->parts);
	free(f->cursors);
	free(f->merge.heap);
	free(f->comms);
	stack_names_free(f->names);
	free(f->symbols);
	if (f->data)
		munmap((void *)f->data, f->size);
	if (f->packed)
		munmap((void *)f->packed, f->packed_size);
	free((void *)f->path);
	free(f);
}

struct source *foreign_source(struct foreign *f)
{
	return &f->source;
}

const struct foreign_facts *foreign_facts(const struct foreign *f)
{
	return &f->facts;
}

const char *foreign_kallsyms(const struct foreign *f)
{
	return f->symbols ?: "";
}
