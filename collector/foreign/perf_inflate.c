// SPDX-License-Identifier: Apache-2.0
#include "perf_inflate.h"
#include "inflated.h"
#include "perf_file.h"

#ifdef HAVE_ZSTD
#include <zstd.h>

static bool is_compressed(uint32_t type)
{
	return type == PERF_RECORD_COMPRESSED || type == PERF_RECORD_COMPRESSED2;
}

static int copy_others(FILE *to, struct span records)
{
	struct span body, extra;
	const uint8_t *begin = records.at;
	uint32_t type;

	for (; (type = perf_file_next(&records, &body, &extra)); begin = records.at)
		if (!is_compressed(type) && fwrite(begin, 1, (size_t)(records.at - begin), to) <
						    (size_t)(records.at - begin))
			return -errno;
	return 0;
}

/* One stream for all records. Returns 1 at damage, where the stream ends. */
static int inflate(FILE *to, ZSTD_DStream *stream, struct span body, uint64_t *left)
{
	static _Thread_local uint8_t chunk[INFLATED_CHUNK];
	ZSTD_inBuffer in = {body.at, span_left(&body), 0};

	for (;;) {
		ZSTD_outBuffer out = {chunk, sizeof(chunk), 0};
		int ret;

		if (ZSTD_isError(ZSTD_decompressStream(stream, &out, &in)))
			return 1;
		ret = inflated_write(to, chunk, out.pos, left);
		if (ret || (in.pos == in.size && out.pos < out.size))
			return ret;
	}
}

static int inflate_all(FILE *to, ZSTD_DStream *stream, struct span records)
{
	uint64_t left = span_left(&records) * MOST_INFLATED;
	struct span body, extra;
	uint32_t type;
	int ret = 0;

	while (!ret && (type = perf_file_next(&records, &body, &extra))) {
		if (!is_compressed(type))
			continue;
		if (type == PERF_RECORD_COMPRESSED2)
			body = span_take(&body, span_number(&body, 8));
		ret = inflate(to, stream, body, &left);
	}
	return ret < 0 ? ret : 0;
}

int perf_inflate(FILE *to, struct span records, struct error *err)
{
	ZSTD_DStream *stream = ZSTD_createDStream();
	int ret = stream ? copy_others(to, records) : -ENOMEM;

	ret = ret ?: inflate_all(to, stream, records);
	ZSTD_freeDStream(stream);
	return inflated_end(to, ret, err);
}

#else

int perf_inflate(FILE *to, struct span records, struct error *err)
{
	return fail(err, EOPNOTSUPP,
		    "compressed by perf record -z, and this pagetape has no libzstd:"
		    " import the text that perf script prints");
}

#endif
