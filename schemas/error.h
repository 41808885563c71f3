/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - what went wrong, in words for the person at the terminal.
 *
 * A function that can fail returns 0 (or a count) or a negative errno: that is
 * for the code. The words go into the caller's struct error; callers that do
 * not care for words pass NULL. A failure is one line at its source:
 *
 *	return fail(err, EINVAL, "order %d is not in 0..%d", order, MAX_ORDER);
 */
#pragma once

struct error {
	char msg[512];
};

/* Write the message, return -code. */
__attribute__((format(printf, 3, 4))) int fail(struct error *err, int code, const char *fmt, ...);
