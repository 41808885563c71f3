/* SPDX-License-Identifier: Apache-2.0 */
/* perf_inflate.h - the records of a perf.data that perf record -z compressed. */
#pragma once

#include "error.h"
#include "span.h"

#include <stdio.h>

/*
 * Write all records into `to`: those that are not compressed, then the rest, so that a record that
 * goes on in the next compressed one is whole. -EBADMSG (nothing could be decompressed), -EFBIG,
 * -ENOSPC and the like, -EOPNOTSUPP (pagetape was built without libzstd).
 */
int perf_inflate(FILE *to, struct span records, struct error *err);
