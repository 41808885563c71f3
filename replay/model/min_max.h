/* SPDX-License-Identifier: Apache-2.0 */
/*
 * min_max.h - the smaller and the greater of two; a value within bounds.
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

/* The kernel's clamp(): with low above high, high. */
static inline int clamp_int(int value, int low, int high)
{
	return min_int(max_int(value, low), high);
}
