# SPDX-License-Identifier: Apache-2.0
"""The memory of a process that asks queries: 1 GiB, whatever the size of its tapes.

DuckDB gets what Python, Arrow and the batch that is read leave of it. A query that needs more puts
rows on the disk (spill_dir). `--memory` of the commands is limit().
"""

DEFAULT = 1 << 30  # bytes
LEAST = 384 << 20
_OWN = 256 << 20  # of the process beside DuckDB, measured

_limit = DEFAULT


def limit(most: float | None) -> None:
    """Let the queries that begin from now on take so many bytes; None is the default."""
    global _limit
    _limit = DEFAULT if most is None else int(most)


def of_duckdb() -> int:
    """The bytes that DuckDB may take."""
    return max(_limit, LEAST) - _OWN
