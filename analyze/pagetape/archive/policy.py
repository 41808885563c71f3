# SPDX-License-Identifier: Apache-2.0
"""What of a tape may leave this machine: policy.toml.

    names = "hash"                      # plain, hash or drop: the least that names must be
    pfns = "moved"                      # as they are, or moved
    tables = ["event", "zone", "task"]  # those that may have rows; without it, all
    facts = ["kernel", "cpus"]          # those that may be there; without it, all
    columns.task = ["pid", "kthread"]   # those that may have values; without it, all of the table

Nothing is removed from a tape: a tape that has more stays here, and the reason names what.
"""

import errno
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pagetape import did_you_mean
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import regular

DEFAULT = Path("/etc/pagetape/policy.toml")

_MOST_BYTES = 1 << 20
_NAMES = ("plain", "hash", "drop")  # each hides more than the one before
_PFNS = ("plain", "moved")
_KEYS = ("columns", "facts", "names", "pfns", "tables")
_MOST_NAMED = 5  # in one line


def _chosen(key: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{key} is {value!r}, not one of {', '.join(known)}")
    return str(value)


def _listed(key: str, value: Any, known: tuple[str, ...] | None = None) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{key} is {value!r}, not a list of names")
    for one in value:
        if known is not None and one not in known:
            raise ValueError(f"{key} has '{one}'{did_you_mean.hint(one, known) or ', unknown'}")
    return frozenset(value)


@dataclass(frozen=True)
class Policy:
    """What may leave; the default policy lets everything leave."""

    path: Path | None = None
    names: str = _NAMES[0]
    pfns: str = _PFNS[0]
    tables: frozenset[str] | None = None
    facts: frozenset[str] | None = None
    columns: dict[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path | None) -> "Policy":
        """The policy in a file, by default in DEFAULT if that exists; raises TapeError."""
        if path is None:
            if not DEFAULT.exists():
                return cls()
            path = DEFAULT
        try:
            given = tomllib.loads(regular.read(path, _MOST_BYTES).decode())
            return cls(path, **_checked(given))
        except (ValueError, RecursionError) as e:  # of TOML, of UTF-8, or of ours
            raise TapeError(errno.EINVAL, f"{path}: {e}") from e

    def check(self, tape: Tape) -> None:
        """Raise TapeError that names what of the tape must not leave."""
        found = [*self._levels(tape), *self._facts(tape), *self._rows(tape)]
        if found:
            more = f" and {len(found) - _MOST_NAMED} more" * (len(found) > _MOST_NAMED)
            what = ", ".join(found[:_MOST_NAMED]) + more
            step = ""
            if "private" not in tape.facts and (self.names, self.pfns) != ("plain", "plain"):
                mode = self.names if self.names != "plain" else "hash"
                step = f"; pagetape import {tape.path} --private {mode} -o NEW.tape"
            raise TapeError(errno.EPERM, f"{tape.path}: {self.path} does not let go: {what}{step}")

    def _levels(self, tape: Tape) -> Iterator[str]:
        private = tape.facts.get("private") or {}
        names = private.get("names", _NAMES[0])
        if _NAMES.index(names) < _NAMES.index(self.names):
            yield f"names that are {names}, not {self.names}"
        if self.pfns != "plain" and private.get("pfns") != self.pfns:
            yield "pfns that are not moved"

    def _facts(self, tape: Tape) -> Iterator[str]:
        if self.facts is not None:
            yield from (f"fact {name}" for name in sorted(tape.facts.keys() - self.facts))

    def _rows(self, tape: Tape) -> Iterator[str]:
        for name in sorted(tape.tables):
            if not tape.num_rows(name):
                continue
            if self.tables is not None and name not in self.tables:
                yield f"table {name}"
            elif name in self.columns:
                yield from (f"column {name}.{one}" for one in self._columns(tape, name))

    def _columns(self, tape: Tape, name: str) -> list[str]:
        """The columns of a table that have values and must not leave."""
        kept = [one.name for one in TABLES[name].columns if one.name not in self.columns[name]]
        found: set[str] = set()
        for batch in tape.batches(name, kept):
            nulls = zip(batch.schema.names, batch.columns, strict=True)
            found |= {one for one, values in nulls if values.null_count < len(values)}
        return sorted(found)


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a Policy; raises ValueError for what is wrong."""
    _listed("it", [*given], _KEYS)
    found = dict(given)
    if "names" in given:
        found["names"] = _chosen("names", given["names"], _NAMES)
    if "pfns" in given:
        found["pfns"] = _chosen("pfns", given["pfns"], _PFNS)
    if "tables" in given:
        found["tables"] = _listed("tables", given["tables"], tuple(TABLES))
    if "facts" in given:
        found["facts"] = _listed("facts", given["facts"])
    columns = given.get("columns", {})
    if not isinstance(columns, dict):
        raise ValueError(f"columns is {columns!r}, not a table of lists")
    _listed("columns", [*columns], tuple(TABLES))
    found["columns"] = {
        name: _listed(f"columns.{name}", value, tuple(one.name for one in TABLES[name].columns))
        for name, value in columns.items()
    }
    return found
