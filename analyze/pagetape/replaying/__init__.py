# SPDX-License-Identifier: Apache-2.0
"""Replaying: plays tapes through the allocator model, and measures its accuracy."""

# What commands list in their help, without the engine.
MEMBERS = 16  # of an ensemble by default
RECLAIM_MODES = ("R0", "R1", "R2")
RECLAIM_AUTO = "auto"
PREFERENCES = ("auto", "cpu", "landed")  # of nodes

# Metrics that no replay predicts, with the reason. pagetape reports no numbers for them.
NOT_MODELLED = {
    "refaults": "programs decide which reclaimed pages are used again",
    "io": "the tape has no requests for I/O, and a replay makes none",
    "swap": "swapped pages depend on the LRU lists, which no event records",
    "throughput": "requests come at their recorded times, however fast they are served",
    "latency": "single stalls are modelled, but not their effect: no request waits for another",
    "efficiency": "pages scanned per reclaimed page depend on the LRU lists",
    "writeback": "no event records which pages are dirty, or when they are written",
    "throttling": "waits for writeback depend on pages that are dirty or congested",
}
