// SPDX-License-Identifier: Apache-2.0
#include "perfetto_inflate.h"
#include "inflated.h"
#include "protobuf.h"

#ifdef HAVE_ZLIB
#include <zlib.h>

enum { COMPRESSED = 50 }; /* field of TracePacket */

/* One compressed packet. Returns 0 also at damage, where its packets end. */
static int inflate_packet(FILE *to, struct span packed, uint64_t *left)
{
	static _Thread_local uint8_t chunk[INFLATED_CHUNK];
	z_stream stream = {.next_in = (Bytef *)packed.at, .avail_in = (uInt)span_left(&packed)};
	int ret = inflateInit(&stream) == Z_OK ? 0 : -ENOMEM, state = Z_OK;

	while (!ret && state == Z_OK) {
		size_t size;

		stream.next_out = chunk;
		stream.avail_out = sizeof(chunk);
		state = inflate(&stream, Z_NO_FLUSH);
		size = sizeof(chunk) - stream.avail_out;
		ret = inflated_write(to, chunk, size, left);
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
	struct pb_field packet;
	int ret = 0;

	for (; !ret && pb_next(&trace, &packet) && packet.is_bytes; begin = trace.at) {
		size_t size = (size_t)(trace.at - begin);
		struct span packed = pb_bytes(packet.bytes, COMPRESSED);

		if (packed.at)
			ret = inflate_packet(to, packed, &left);
		else if (fwrite(begin, 1, size, to) < size)
			ret = -errno;
	}
	return inflated_end(to, ret, err);
}

#else

int perfetto_inflate(FILE *to, struct span trace, struct error *err)
{
	return fail(err, EOPNOTSUPP,
		    "compressed, and this pagetape has no zlib: record without"
		    " compression_type");
}

#endif
