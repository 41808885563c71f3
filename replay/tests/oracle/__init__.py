# SPDX-License-Identifier: Apache-2.0
"""A slow, obvious model of the kernel's page allocator.

It is the second opinion on the C engine: written from what the kernels do, not from the
engine, with plain lists and dicts and one class for each family of rules.

    kernels     what differs between kernels, one row each
    buddy       free lists of a zone: split, merge, insert, move a pageblock
    fallback    what happens when the wanted free lists are empty
    pcp         per-CPU lists: how much to refill, when and what to drain
    watermark   which requests a zone may serve
    machine     the zonelist scan; requests in, events out
    slow_path   the turns of a request that finds no page
    compaction  whether compaction of a zone can help, and which pages move where
    feedback    a machine whose requests reclaim, compact and wake daemons
"""

from .kernels import KERNELS, Kernel
from .machine import Event, Geometry, Machine, Marks, Nofragment, Zone, ZoneSpec
from .names import (
    CMA,
    HIGHATOMIC,
    ISOLATE,
    MERGEABLE,
    MOVABLE,
    RECLAIMABLE,
    RESERVE,
    UNMOVABLE,
    ZONES,
)
from .pcp import Settings

__all__ = [
    "CMA",
    "HIGHATOMIC",
    "ISOLATE",
    "KERNELS",
    "MERGEABLE",
    "MOVABLE",
    "RECLAIMABLE",
    "RESERVE",
    "UNMOVABLE",
    "ZONES",
    "Event",
    "Geometry",
    "Kernel",
    "Machine",
    "Marks",
    "Nofragment",
    "Settings",
    "Zone",
    "ZoneSpec",
]
