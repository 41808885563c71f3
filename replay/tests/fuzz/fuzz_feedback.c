// SPDX-License-Identifier: Apache-2.0
/* Hostile tapes for free runs with the model's own reclaim (R1, R2). */
#include "hostile_tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return hostile_tape_play(HOSTILE_FEEDBACK, data, size);
}
