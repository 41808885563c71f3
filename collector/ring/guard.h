/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - the descriptors that a guard starts with: see guard_start.h. */
#pragma once

#define GUARD_NAME "pagetape-guard"

enum {
	GUARD_PIPE = 0,  /* ends when the recorder ends */
	GUARD_SPOOL = 3, /* the directory of the spool, if its recorder stores one */
};
