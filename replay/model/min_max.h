/* SPDX-License-Identifier: Apache-2.0 */
/*
 * min_max.h - the smaller and the greater of two.
 */
#pragma once

static inline int min_int(int a, int b)
{
	return a < b ? a : b;
}

static inline int max_int(int a, int b)
{
	return a > b ? a : b;
}
