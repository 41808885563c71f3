# SPDX-License-Identifier: Apache-2.0
"""The counters of tracefs' rings, from copies of per_cpu/cpuN/stats."""

import re
from typing import Any

_COLUMNS = {
    "overrun": "overrun",
    "commit overrun": "commit_overrun",
    "dropped events": "dropped",
}
_CPUS = 1 << 16
_NUMBER = re.compile(r"\s*(-?\d{1,16})\s*", re.ASCII)


def parse_ring_stats(text: str) -> list[dict[str, Any]]:
    """Columns of the table ring from tracefs' stats of one or more CPUs, in order."""
    rows: list[dict[str, Any]] = []
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "entries" and len(rows) < _CPUS:
            rows.append({"cpu": len(rows)})
        elif rows and name in _COLUMNS and (number := _NUMBER.fullmatch(value)):
            rows[-1][_COLUMNS[name]] = max(int(number[1]), 0)
    return rows
