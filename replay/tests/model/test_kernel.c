// SPDX-License-Identifier: Apache-2.0
/* The rows of kernels, and the row of a release. */
#include "check.h"
#include "toy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

TEST(releases_find_their_row)
{
	static const struct {
		const char *release, *row;
	} cases[] = {
		{"2.6.32-5-amd64", "2.6.32"},
		{"4.19.0-27-amd64", "4.20"},
		{"5.0.1", "5.0"},
		{"5.8.18", "5.8"},
		{"5.9.0", "5.10"},
		{"5.10.0-33-amd64", "5.10"},
		{"5.13.19", "5.10"},
		{"5.14.0", "5.14"},
		{"5.15.0-139-generic", "5.14"},
		{"6.1.0", "6.1.0"},
		{"6.1.192", "6.1.192"},
		{"6.6.87", "6.5"},
		{"6.8.0-60-generic", "6.8"},
		{"6.12.19", "6.12.19"},
		{"6.12.117+deb12-cloud-amd64", "6.12.117"},
		{"6.14.0", "6.14"},
		{"6.15.0", "6.15"},
		{"6.16.0", "6.17"},
		{"6.17.0", "6.17"},
		{"6.18.44-fc", "6.18"},
		{"6.19.14+deb13-amd64", "6.19"},
		{"7.0.13+deb13-cloud-amd64", "7.0"},
		{"7.1.3", "7.1"},
		{"7.2.13+deb14-amd64", "7.2"},
		{"7.3-rc7", "7.3"},
		{"7.3.4+deb13-cloud-amd64", "7.3"},
	};
	char every_row[512] = "release 'linux' has no row; there are:";
	size_t used = strlen(every_row);
	const struct kernel *k;
	struct error err;

	for (k = kernels; k->name; k++)
		used += (size_t)snprintf(every_row + used, sizeof(every_row) - used, " %s",
					 k->name);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		check(!kernel_for_release(&k, cases[i].release, &err));
		check_text(k->name, cases[i].row);
	}
	check(kernel_for_release(&k, "2.4.37", &err) == -ENOENT);
	check(kernel_for_release(&k, "4294967302.1.0", &err) == -ENOENT);
	check(!kernel_for_release(&k, "6.1.99999999999", &err));
	check_text(k->name, "6.1.192");
	check(kernel_for_release(&k, "linux", &err) == -ENOENT);
	check_text(err.msg, every_row);
}
