// SPDX-License-Identifier: Apache-2.0
/* summary.h - what a load prints at its end, and the samples that it leaves to the recorder. */
#pragma once

#include "load.h"

/* Append the samples of all processes to the file, as lines; see docs/recording.md. */
void write_samples(const struct shared *shared, int processes, const char *file);

/* Print the summary of a load that ran for `seconds`; the files are those of this directory. */
void print_summary(const struct load_kind *kind, const struct load *load, int processes, bool json);

/* Print the public loads, as JSON. */
void print_loads(const struct load_kind *const *kinds);
