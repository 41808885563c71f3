/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.h - C tests with TAP output, for `meson test`.
 *
 * TEST(name) { ... } is a test: its name is the sentence that it proves. The library's main() runs
 * all tests of a program in the order of their file; a program with another main() calls
 * check_run().
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Elements of an array. */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

extern bool check_failed; /* since the test began */

#define check(expr)                                                                                \
	do {                                                                                       \
		if (!(expr)) {                                                                     \
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #expr);                        \
			check_failed = true;                                                       \
		}                                                                                  \
	} while (0)

struct check_test {
	void (*run)(void);
	const char *name;
	struct check_test *next;
};

void check_add(struct check_test *test);
/* Run the tests of the program; 1 if one failed, else 0. */
int check_run(void);

#define TEST(function)                                                                             \
	static void function(void);                                                                \
	__attribute__((constructor)) static void add_##function(void)                              \
	{                                                                                          \
		static struct check_test test = {function, #function, NULL};                       \
		check_add(&test);                                                                  \
	}                                                                                          \
	static void function(void)

/* Declare a struct that make(&name, ...) fills, and that end(&name) frees when its block ends. */
#define SCOPED(type, end, name, make, ...)                                                         \
	__attribute__((cleanup(end))) struct type name;                                            \
	make(&name, ##__VA_ARGS__)
