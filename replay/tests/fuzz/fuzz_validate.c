// SPDX-License-Identifier: Apache-2.0
/* Hostile tapes for validate, and its comparison of the end state. */
#include "hostile_tape.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return hostile_tape_play(HOSTILE_VALIDATE, data, size);
}
