# SPDX-License-Identifier: Apache-2.0
"""Names of the allocator's types, as a tape writes them."""

UNMOVABLE = "UNMOVABLE"
MOVABLE = "MOVABLE"
RECLAIMABLE = "RECLAIMABLE"
HIGHATOMIC = "HIGHATOMIC"
CMA = "CMA"
ISOLATE = "ISOLATE"
RESERVE = "RESERVE"

ZONES = ("DMA", "DMA32", "NORMAL", "HIGHMEM", "MOVABLE", "DEVICE")

# A pageblock of one of these types may merge with another of them.
MERGEABLE = (UNMOVABLE, MOVABLE, RECLAIMABLE)

COSTLY_ORDER = 3
