// SPDX-License-Identifier: Apache-2.0
/* run_corpus.c - runs a fuzz target on every file of a directory: run_corpus DIR */
#include "check.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *corpus;

static void run_file(const char *name)
{
	char path[4096];
	uint8_t *data;
	FILE *file;
	long size;

	snprintf(path, sizeof(path), "%s/%s", corpus, name);
	file = fopen(path, "re");
	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0) {
		perror(path);
		exit(1);
	}
	rewind(file);
	/* Exactly as large as the input, for the address sanitizer. */
	data = malloc((size_t)size);
	check(fread(data, 1, (size_t)size, file) == (size_t)size);
	check(!LLVMFuzzerTestOneInput(data, (size_t)size));
	free(data);
	fclose(file);
}

TEST(every_input_of_the_corpus_is_read_or_refused)
{
	DIR *dir = opendir(corpus);
	struct dirent *entry;
	int nr = 0;

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		run_file(entry->d_name);
		nr++;
	}
	check(nr > 0);
	if (dir)
		closedir(dir);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	corpus = argv[1];
	return check_run();
}
