// SPDX-License-Identifier: Apache-2.0
/* check_main.c - main() of a test program that has none of its own. */
#include "check.h"

int main(void)
{
	return check_run();
}
