/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reclaim_parts.h - the parts of a run with feedback, shared by its daemons and requests.
 */
#pragma once

#include "compact_model.h"
#include "emit_rows.h"
#include "reclaim_supply.h"
#include "scan_pace.h"
#include "service.h"

struct recorded_checks;

struct reclaim_parts {
	struct model *model;
	struct reclaim_supply *supply;
	struct service *service;
	const struct scan_pace *pace;
	struct compaction *compaction;
	struct row_outputs *rows;
	const struct recorded_checks *checks; /* of kcompactd (kcompactd.h) */
};
