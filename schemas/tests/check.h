/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - C tests with TAP output, for `meson test`.
 *
 * A test is a function whose name is the sentence that it proves. main() runs each with test() and
 * returns check_done().
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Elements of an array. */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int check_nr_tests, check_nr_failed;
static bool check_failed;

#define check(expr)                                                                                \
	do {                                                                                       \
		if (!(expr)) {                                                                     \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #expr);                        \
			check_failed = true;                                                       \
		}                                                                                  \
	} while (0)

#define test(function) (check_failed = false, function(), check_report(#function))

static inline void check_report(const char *name)
{
	printf("%sok %d - ", check_failed ? "not " : "", ++check_nr_tests);
	for (; *name; name++)
		putchar(*name == '_' ? ' ' : *name);
	putchar('\n');
	fflush(stdout);
	check_nr_failed += check_failed;
}

static inline int check_done(void)
{
	printf("1..%d\n", check_nr_tests);
	return check_nr_failed != 0;
}
