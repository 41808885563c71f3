/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_file.h - inputs of libFuzzer as the files that pagetape reads.
 *
 * A file collector/tests/fuzz/fuzz_NAME.c is one target. `make fuzz` gives it to libFuzzer;
 * schemas/tests/run_corpus.c feeds it the inputs in corpus/fuzz_NAME, which the C tests do.
 */
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of the sanitizers; absent without them. */
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));

/* The rest of an input. */
struct input {
	const uint8_t *data;
	size_t left;
};

/* The next `bytes`, at most 8, as a number; 0 where there are no more. */
static inline uint64_t take(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	bytes = bytes < in->left ? bytes : in->left;
	memcpy(&value, in->data, bytes);
	in->data += bytes;
	in->left -= bytes;
	return value;
}

static inline void fuzz_in_child(void)
{
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(NULL);
}

/* A library may fall in a child process of input/probe.c: libFuzzer must not store the input. */
static inline void fuzz_let_children_fall(void)
{
	pthread_atfork(NULL, NULL, fuzz_in_child);
}

static char fuzz_dir[64];

static inline void fuzz_remove(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", fuzz_dir);
	(void)!system(command);
}

/* A directory in memory for the files of this process. */
static inline void fuzz_make_dir(const char *name)
{
	snprintf(fuzz_dir, sizeof(fuzz_dir), "/dev/shm/%s.XXXXXX", name);
	if (!mkdtemp(fuzz_dir)) {
		perror(fuzz_dir);
		exit(1);
	}
	atexit(fuzz_remove);
}

static inline const char *fuzz_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", fuzz_dir, name);
	return path;
}

static inline void fuzz_write(const char *name, const void *data, size_t size)
{
	int fd = open(fuzz_path(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
		perror(fuzz_path(name));
		exit(1);
	}
	close(fd);
}
