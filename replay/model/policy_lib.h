/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_lib.h - a policy from outside the tree: a shared object.
 *
 * It includes policy.h, as installed in `pagetape policies --include-dir`, and exports
 *
 *	const struct policy_ops pagetape_policy = {.abi = POLICY_ABI, .name = ..., ...};
 *
 * A policy calls only functions of those headers, libc, and the hooks of self->mainline. It
 * runs inside pagetape, with the rights of that process.
 */
#pragma once

#include "policy.h"

struct policy_lib {
	void *handle;
	const struct policy_ops *ops;
};

/*
 * Load the object at a path. -ENOENT if that fails or it exports no policy, -EINVAL if it was
 * compiled with other headers.
 */
int policy_lib_open(struct policy_lib *lib, const char *path, struct error *err);
void policy_lib_close(struct policy_lib *lib);
