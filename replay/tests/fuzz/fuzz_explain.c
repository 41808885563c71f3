// SPDX-License-Identifier: Apache-2.0
/* Hostile tapes for the explanations of both kinds of run. */
#include "hostile_tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return hostile_tape_play(HOSTILE_EXPLAIN, data, size);
}
