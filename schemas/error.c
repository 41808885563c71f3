// SPDX-License-Identifier: Apache-2.0
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

int fail(struct error *err, int code, const char *fmt, ...)
{
	va_list args;

	if (err) {
		va_start(args, fmt);
		vsnprintf(err->msg, sizeof(err->msg), fmt, args);
		va_end(args);
	}
	return -code;
}
