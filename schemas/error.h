/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h - the message of a failure, for the person at the terminal.
 *
 * A function that can fail returns 0 (or a count) or a negative errno. The message
 * goes into the caller's struct error; a caller that needs no message passes NULL.
 * A failure is one line at its source:
 *
 *	return fail(err, EINVAL, "order %d is not in 0..%d", order, MAX_ORDER);
 */
#pragma once

struct error {
	char msg[512];
};

/* Write the message, return -code. */
__attribute__((format(printf, 3, 4))) int fail(struct error *err, int code, const char *fmt, ...);
