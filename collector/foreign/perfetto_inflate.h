/* SPDX-License-Identifier: Apache-2.0 */
/* perfetto_inflate.h - the packets of a Perfetto trace that are compressed. */
#pragma once

#include "error.h"
#include "span.h"

#include <stdio.h>

/*
 * Write all packets into `to`, those of a compressed packet in its place. -EFBIG, -ENOSPC and the
 * like, -EOPNOTSUPP (pagetape was built without zlib).
 */
int perfetto_inflate(FILE *to, struct span trace, struct error *err);
