// SPDX-License-Identifier: Apache-2.0
#include "perfetto_inflate.h"
#include "protobuf.h"

#include <errno.h>

#ifdef HAVE_ZLIB
#include <zlib.h>

enum {
	COMPRESSED = 50,     /* field of TracePacket */
	MOST_INFLATED = 256, /* times the file: events compress to a tenth */
	CHUNK = 64 << 10,
};

/* One compressed packet. Returns 0 also at damage, where its packets end. */
static int inflate_packet(FILE *to, struct span packed, uint64_t *left)
{
	static _Thread_local uint8_t chunk[CHUNK];
	z_stream stream = {.next_in = (Bytef *)packed.at, .avail_in = (uInt)span_left(&packed)};
	int ret = inflateInit(&stream) == Z_OK ? 0 : -ENOMEM, state = Z_OK;

	while (!ret && state == Z_OK) {
		size_t size;

		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		state = inflate(&stream, Z_NO_FLUSH);
		size = sizeof(chunk) - stream.avail_out;
		if (size > *left)
			ret = -EFBIG;
		else if (fwrite(chunk, 1, size, to) < size)
			ret = -errno;
		*left -= ret ? 0 : size;
		if (!size && !stream.avail_in)
			break;
	}
	inflateEnd(&stream);
	return ret;
}

int perfetto_inflate(FILE *to, struct span trace, struct error *err)
{
	uint64_t left = span_left(&trace) * MOST_INFLATED;
	const uint8_t *begin = trace.at;
	struct pb_field packet, field;
	int ret = 0;

	for (; !ret && pb_next(&trace, &packet) && packet.is_bytes; begin = trace.at) {
		size_t size = (size_t)(trace.at - begin);
		struct span packed = {0};

		for (struct span rest = packet.bytes; pb_next(&rest, &field);)
			if (field.number == COMPRESSED && field.is_bytes)
				packed = field.bytes;
		if (packed.at)
			ret = inflate_packet(to, packed, &left);
		else if (fwrite(begin, 1, size, to) < size)
			ret = -errno;
	}
	if (!ret && fflush(to))
		ret = -errno;
	return ret ? fail(err, -ret, "cannot decompress it to a temporary file: %s", strerror(-ret))
		   : 0;
}

#else

int perfetto_inflate(FILE *to, struct span trace, struct error *err)
{
	(void)to;
	(void)trace;
	return fail(err, EOPNOTSUPP,
		    "compressed, and this pagetape has no zlib: record without"
		    " compression_type");
}

#endif
