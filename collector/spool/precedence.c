// SPDX-License-Identifier: Apache-2.0
#include "precedence.h"

#include <sched.h>
#include <sys/resource.h>

enum { NICE = -10 };

void take_precedence(void)
{
	struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &lowest))
		setpriority(PRIO_PROCESS, 0, NICE);
}
