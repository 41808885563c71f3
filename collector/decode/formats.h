/* SPDX-License-Identifier: Apache-2.0 */
/*
 * formats.h - the traced kernel's event formats, as a file beside the spools.
 *
 * Text, the formats as the kernel gives them:
 *
 *	pagetape formats 1
 *	vmstat_update ffffffff8121f3a0
 *	zone_lock ffff88807ffdb900 0 2    (of node 0, NORMAL)
 *	event kmem 1098
 *	name: mm_page_alloc
 *	...1098 bytes...
 */
#pragma once

#include "decode.h"
#include "error.h"
#include "ring/instance.h"

#include <event-parse.h>
#include <stddef.h>

/* Write the formats of `nr` events, "system:event"; the file appears when it is complete. */
int formats_write(const char *path, struct instance *instance, char *const *events, size_t nr,
		  const struct kernel_addresses *addresses, struct error *err);

/*
 * Read them all. -ENOENT and the like, -EINVAL (not a regular file), -EFBIG, -EBADMSG (not of this
 * format).
 */
int formats_read(const char *path, struct tep_handle *tep, struct kernel_addresses *addresses,
		 struct error *err);
