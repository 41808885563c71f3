/* SPDX-License-Identifier: Apache-2.0 */
/*
 * precedence.h - the right of way of the threads that move events: from the rings into the spools'
 * memory, and from there to the disk.
 */
#pragma once

/*
 * From now on the calling thread runs before those of the load: as SCHED_FIFO at its lowest
 * priority, else, without CAP_SYS_NICE, at a higher nice value, or at none.
 *
 * The memory of a spool is a file. To write there is to dirty a page, and under memory pressure the
 * load's own dirty pages are at the limit: then each thread that dirties one waits for the disk.
 * For a real-time thread that limit is a quarter higher (domain_dirty_limits, 4.10 to 7.3), and it
 * may use a part of the memory below the min watermark (gfp_to_alloc_flags).
 */
void take_precedence(void);
