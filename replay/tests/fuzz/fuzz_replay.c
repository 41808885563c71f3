// SPDX-License-Identifier: Apache-2.0
/* Hostile tapes for free runs with recorded reclaim (R0). */
#include "hostile_tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return hostile_tape_play(HOSTILE_REPLAY, data, size);
}
