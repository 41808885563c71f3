/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_replay.h - the entry that libFuzzer looks for.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Play one hostile tape; aborts if the engine does not survive it in good order. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
