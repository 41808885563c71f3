// SPDX-License-Identifier: Apache-2.0
#include "check.h"

int main(void)
{
	return check_run();
}
