// SPDX-License-Identifier: Apache-2.0
#include "policy_lib.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int check(const struct policy_ops *ops, const char *path, struct error *err)
{
	if (ops->abi != POLICY_ABI)
		return fail(err, EINVAL,
			    "%s: not compiled with .abi = POLICY_ABI and the headers of this "
			    "pagetape (pagetape policies --include-dir)",
			    path);
	if (!ops->name || !*ops->name || strpbrk(ops->name, ":,= ") || !ops->doc || !ops->kernel ||
	    !ops->tier)
		return fail(err, EINVAL, "%s: its policy lacks a name, doc, kernel or tier", path);
	for (const struct policy_param *p = ops->params; p && p->name; p++)
		if (!p->doc || p->offset + sizeof(int64_t) > ops->state_size)
			return fail(err, EINVAL,
				    "%s: parameter %s of %s has no doc or no place in the state",
				    path, p->name, ops->name);
	return 0;
}

int policy_lib_open(struct policy_lib *lib, const char *path, struct error *err)
{
	char *real = realpath(path, NULL);
	struct stat st;
	int ret;

	*lib = (struct policy_lib){0};
	if (!real)
		return fail(err, ENOENT, "%s: %s", path, strerror(errno));
	/* The loader would wait for a FIFO's writer. */
	if (stat(real, &st) || !S_ISREG(st.st_mode)) {
		free(real);
		return fail(err, EINVAL, "%s: not a regular file", path);
	}
	lib->handle = dlopen(real, RTLD_NOW | RTLD_LOCAL);
	free(real);
	if (!lib->handle)
		return fail(err, ENOENT, "%s", dlerror());
	lib->ops = dlsym(lib->handle, "pagetape_policy");
	ret = lib->ops ? check(lib->ops, path, err)
		       : fail(err, ENOENT, "%s: exports no pagetape_policy", path);
	if (ret)
		policy_lib_close(lib);
	return ret;
}

void policy_lib_close(struct policy_lib *lib)
{
	if (lib->handle)
		dlclose(lib->handle);
	*lib = (struct policy_lib){0};
}
