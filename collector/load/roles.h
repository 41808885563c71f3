// SPDX-License-Identifier: Apache-2.0
/* roles.h - processes that several loads have. */
#pragma once

#include "load.h"

/* Write a byte to each page, until it is over. */
void touch(char *area, size_t size, const struct load *load);

/* Write or read the file of that name, page by page; 0, or -errno. */
int file_io(const char *name, size_t size, bool write_it);

/* Start `nr` processes that run `body`, at most 16, wait for all of them, and again. */
void churn_children(struct load *load, int nr, void (*body)(struct load *));
