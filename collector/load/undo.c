// SPDX-License-Identifier: Apache-2.0
#include "undo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include "load.h"

enum { MOST_CHANGES = 256, TRIES = 40 };

static const char *const words[] = {"directory", "group", "mount", "swap", "file"};
static const char root_place[] = "/run/pagetape";
static const char prefix[] = "load.";

static char list_path[PATH_MAX + 32];
static int list = -1;

static void user_place(char *place, size_t size)
{
	snprintf(place, size, "/tmp/pagetape-load-%u", (unsigned int)geteuid());
}

/* A directory of this user, which no other user can change. */
static bool is_own(const char *place)
{
	struct stat found;

	return !lstat(place, &found) && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
	       !(found.st_mode & (S_IWGRP | S_IWOTH));
}

void undo_begin(void)
{
	char place[PATH_MAX];
	struct stat found;

	snprintf(place, sizeof(place), "%s", root_place);
	if (geteuid() || (mkdir(place, 0755) && errno != EEXIST) || access(place, W_OK)) {
		user_place(place, sizeof(place));
		mkdir(place, 0700);
	}
	if (!is_own(place)) {
		errno = 0;
		die("%s is not a directory of this user alone", place);
	}
	snprintf(list_path, sizeof(list_path), "%s/%s%d", place, prefix, getpid());
	do { /* before it is locked, another load may take it for a killed one's */
		if (list >= 0)
			close(list);
		list = open(list_path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
			    0600);
		if (list < 0 || flock(list, LOCK_EX) || fstat(list, &found))
			die("%s", list_path);
	} while (!found.st_nlink);
}

void undo_add(enum change change, const char *path, const char *before)
{
	char line[2 * PATH_MAX];
	int size = snprintf(line, sizeof(line), "%s\t%s\t%s\n", words[change], path,
			    before ? before : "");

	if (strpbrk(path, "\t\n") || size >= (int)sizeof(line)) {
		errno = EINVAL;
		die("%s", path);
	}
	if (write(list, line, (size_t)size) != size)
		die("%s", list_path);
}

static int remove_one(const char *path, const struct stat *found, int type, struct FTW *where)
{
	remove(path);
	return 0;
}

/* End the processes of a control group, and remove it: it is busy until they are gone. */
static void remove_group(const char *path)
{
	char file[PATH_MAX + 16];

	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	for (int i = 0; i < TRIES && rmdir(path) && errno == EBUSY; i++) {
		FILE *members = fopen(file, "re");
		int pid;

		while (members && fscanf(members, "%d", &pid) == 1)
			if (pid != getpid())
				kill(pid, SIGKILL);
		if (members)
			fclose(members);
		usleep(50000);
	}
}

/* Whether the change is undone. A change that was not made any more is. */
static bool undo_one(const char *line)
{
	char word[16], path[PATH_MAX], before[PATH_MAX] = "";
	struct stat found;

	if (sscanf(line, "%15[^\t]\t%4095[^\t]\t%4095[^\n]", word, path, before) < 2)
		return true; /* cut short: before the change */
	if (!strcmp(word, words[SET_FILE]))
		return !write_text(path, before);
	if (!strcmp(word, words[MADE_MOUNT]))
		return !umount2(path, MNT_DETACH) || errno == EINVAL || errno == ENOENT;
	if (!strcmp(word, words[MADE_SWAP]))
		return !swapoff(path) || errno == EINVAL || errno == ENOENT;
	if (!strstr(path, "/pagetape-load")) /* no other name is ever removed */
		return false;
	if (!strcmp(word, words[MADE_GROUP]))
		remove_group(path);
	else
		nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return lstat(path, &found) && errno == ENOENT;
}

/* Undo the changes of a list, the last one first, and remove it; the number that stayed. */
static int undo_list(const char *path, bool say)
{
	char *lines[MOST_CHANGES], *line = NULL;
	FILE *file = fopen(path, "re");
	size_t size = 0;
	int nr = 0, left = 0;

	if (!file)
		return 0;
	while (nr < MOST_CHANGES && getline(&line, &size, file) > 0)
		lines[nr++] = strdup(line);
	free(line);
	fclose(file);
	while (nr--) {
		if (!undo_one(lines[nr])) {
			left++;
			fprintf(stderr, "pagetape load: cannot undo: %s", lines[nr]);
		} else if (say) {
			lines[nr][strcspn(lines[nr], "\n")] = '\0';
			fprintf(stderr, "pagetape load: undone: %s\n", lines[nr]);
		}
		free(lines[nr]);
	}
	if (!left)
		unlink(path);
	return left;
}

void undo_all(void)
{
	if (list >= 0)
		undo_list(list_path, false);
	list = -1;
}

static int undo_left_in(const char *place, bool say)
{
	DIR *opened = is_own(place) ? opendir(place) : NULL;
	struct dirent *entry;
	int lists = 0;

	while (opened && (entry = readdir(opened))) {
		char path[PATH_MAX];
		int fd;

		if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1))
			continue;
		snprintf(path, sizeof(path), "%s/%s", place, entry->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB)) {
			lists++;
			undo_list(path, say);
		}
		if (fd >= 0)
			close(fd);
	}
	if (opened)
		closedir(opened);
	return lists;
}

int undo_left(bool say)
{
	char place[PATH_MAX];

	user_place(place, sizeof(place));
	return undo_left_in(root_place, say) + undo_left_in(place, say);
}
