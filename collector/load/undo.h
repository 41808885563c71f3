// SPDX-License-Identifier: Apache-2.0
/*
 * undo.h - the list of what a load changes on the machine, and its way back.
 *
 * Each change is written to a file before it is made. The file is named by the pid and locked while
 * the load or one of its processes runs. undo_left() finds the files without a lock: those of loads
 * that were killed. The list is in /run/pagetape, or in a directory of the user below /tmp.
 */
#pragma once

#include <stdbool.h>

enum change { MADE_DIRECTORY, MADE_GROUP, MADE_MOUNT, MADE_SWAP, SET_FILE };

/* Begin the list of this process. Ends the program if no list can be written. */
void undo_begin(void);

/* A change that follows now. `before` is the text that a file had, for SET_FILE. */
void undo_add(enum change change, const char *path, const char *before);

/* Undo the changes of this process, the last one first. */
void undo_all(void);

/* Undo the changes of loads that were killed; their number. Lines to stderr if `say`. */
int undo_left(bool say);
