// SPDX-License-Identifier: Apache-2.0
#include "check.h"

bool check_failed;

static struct check_test *first, **end = &first;

void check_add(struct check_test *test)
{
	*end = test;
	end = &test->next;
}

int check_run(void)
{
	int nr = 0, failed = 0;

	for (const struct check_test *t = first; t; t = t->next) {
		check_failed = false;
		t->run();
		printf("%sok %d - ", check_failed ? "not " : "", ++nr);
		for (const char *c = t->name; *c; c++)
			putchar(*c == '_' ? ' ' : *c);
		putchar('\n');
		fflush(stdout);
		failed |= check_failed;
	}
	printf("1..%d\n", nr);
	return failed;
}
