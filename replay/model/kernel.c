// SPDX-License-Identifier: Apache-2.0
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int no_kernel(struct error *err, const char *what, const char *name)
{
	char names[512] = "";
	size_t used = 0;

	for (const struct kernel *k = kernels; k->name && used < sizeof(names); k++)
		used += (size_t)snprintf(names + used, sizeof(names) - used, " %s", k->name);
	return fail(err, ENOENT, "%s '%.64s' has no row; there are:%s", what, name, names);
}

int kernel_find(const struct kernel **out, const char *name, struct error *err)
{
	for (const struct kernel *k = kernels; k->name; k++) {
		if (!strcmp(k->name, name)) {
			*out = k;
			return 0;
		}
	}
	return no_kernel(err, "kernel", name);
}

static bool same(const struct kernel *one, const struct kernel *other, const struct feature *f)
{
	return ((const uint8_t *)one)[f->offset] == ((const uint8_t *)other)[f->offset];
}

bool kernel_rules_same(const struct kernel *one, const struct kernel *other)
{
	for (const struct feature *f = features; f->name; f++)
		if (!same(one, other, f))
			return false;
	return true;
}

bool kernel_reclaim_same(const struct kernel *one, const struct kernel *other)
{
	for (const struct feature *f = features; f->name; f++)
		if (f->reclaim && !same(one, other, f))
			return false;
	return true;
}

static int compare(const int a[3], const int b[3])
{
	for (int i = 0; i < 3; i++)
		if (a[i] != b[i])
			return a[i] - b[i];
	return 0;
}

int kernel_for_release(const struct kernel **out, const char *release, struct error *err)
{
	const struct kernel *found = NULL;
	int r[3] = {0};

	if (sscanf(release, "%5d.%5d.%5d", &r[0], &r[1], &r[2]) < 2)
		return no_kernel(err, "release", release);
	for (const struct kernel_start *start = kernel_starts; start->kernel; start++)
		if (compare(start->release, r) <= 0)
			found = start->kernel;
	if (!found)
		return no_kernel(err, "release", release);
	*out = found;
	return 0;
}
