# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep over an archive: Parquet files with one row per tape, run and metric.

    results/1f0c88a2....parquet

A worker puts a file for each part of its tapes, if absent; the name is a hash of the rows. A run
that failed has one row without a metric, whose `problem` says why, and so has a tape that cannot be
read, without a run. Files are never changed: a later sweep adds files, and a run that failed may be
made in one of them.

A result belongs to a recording, a run as it was asked for, the number of members and the build of
pagetape. Copies of one result are read once.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pagetape.archive.store import Store
from pagetape.replaying.sweep import Asked, Failed

RESULTS = "results"  # first segment of the names

_TEXT, _WHOLE, _NUMBER, _BOOL = pa.utf8(), pa.int64(), pa.float64(), pa.bool_()
_OF_TAPE = {  # the first fields of SweepTape
    "identity": _TEXT,
    "object": _TEXT,
    "machine": _TEXT,
    "host": _TEXT,
    "kernel_release": _TEXT,
    "began": pa.timestamp("us"),
}
_OF_RUN = {
    "policies": pa.list_(_TEXT),
    "kernel": _TEXT,  # as asked for, like the next three
    "reclaim": _TEXT,
    "prefer": _TEXT,
    "nodes": _TEXT,
    "members": pa.int32(),
    "build": _TEXT,
    "problem": _TEXT,
    "run": _TEXT,  # the run without its metrics, as JSON
}
_PLAIN = {
    "metric": _TEXT,
    "unit": _TEXT,
    "tier": _TEXT,
    "value": _WHOLE,
    "most": _WHOLE,
    "recorded": _WHOLE,
    "model": _WHOLE,
    "model_error": _WHOLE,
    "median": _NUMBER,
    "low": _NUMBER,
    "high": _NUMBER,
    "scaled": _NUMBER,
    "comparable": _BOOL,
    "followed": _BOOL,
    "no_verdict": _TEXT,
}
_OWN = {"median": _NUMBER, "low": _NUMBER, "high": _NUMBER}
_DIFFERENCE = {
    "value": _NUMBER,
    "percent": _NUMBER,
    "low": _NUMBER,
    "high": _NUMBER,
    "shown": _BOOL,
    "followed": _BOOL,
    "no_verdict": _TEXT,
}
_SCHEMA = pa.schema(
    {
        **_OF_TAPE,
        **_OF_RUN,
        **_PLAIN,
        "own": pa.struct(list(_OWN.items())),
        "difference": pa.struct(list(_DIFFERENCE.items())),
        "success": _TEXT,  # of a fragmentation index, as JSON
    }
)
_LONG = ("metrics", "totals", "not_modelled")  # keys of a run that its rows leave out


class SweepTape(NamedTuple):
    """A tape of a sweep."""

    identity: str  # of the recording
    object: str  # its name in the archive; of a tape elsewhere its label
    machine: str
    host: str | None
    kernel_release: str | None = None
    began: datetime | None = None
    bytes: int = 0  # to fetch
    path: Path = Path()  # if it is in no archive


class Key(NamedTuple):
    """What a result belongs to, besides the build."""

    identity: str
    run: Asked
    members: int


class Result(NamedTuple):
    """The result of one run on one tape."""

    tape: SweepTape
    run: Asked
    members: int
    made: dict[str, Any]  # as the .json of a run

    @property
    def key(self) -> Key:
        return Key(self.tape.identity, self.run, self.members)


def _rows(result: Result) -> Iterator[dict[str, Any]]:
    about = result.tape._asdict() | result.run._asdict() | {"members": result.members}
    short = {key: value for key, value in result.made.items() if key not in _LONG}
    about["run"] = json.dumps(short, sort_keys=True)
    for metric in result.made["metrics"]:
        success = metric.get("success")
        yield about | metric | {"success": success and json.dumps(success, sort_keys=True)}


def put(
    store: Store,
    found: Sequence[Result],
    failed: Sequence[tuple[SweepTape, Failed]],
    members: int,
    build: str,
) -> None:
    """Put one file with these results, and with the runs that have none."""
    rows = [row for result in found for row in _rows(result)]
    for tape, one in failed:
        rows.append(tape._asdict() | one.asked | {"members": members, "problem": one.reason})
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pylist([row | {"build": build} for row in rows], _SCHEMA)
    pq.write_table(table, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    name = blake2b(data, digest_size=16).hexdigest()
    store.put_new(f"{RESULTS}/{name}.parquet", data)


def _files(store: Store) -> Iterator[IO[bytes]]:
    for one in sorted(store.list(RESULTS), key=lambda one: one.name):
        if one.name.endswith(".parquet"):
            with TemporaryFile() as file:
                file.write(store.get(one.name))
                file.seek(0)
                yield file


def _asked(row: Mapping[str, Any]) -> Asked:
    return Asked(tuple(row["policies"]), *(row[name] for name in Asked._fields[1:]))


def _key(row: Mapping[str, Any]) -> Key:
    return Key(row["identity"], _asked(row), row["members"])


_KEYS = ["identity", *Asked._fields, "members"]


def made(store: Store, build: str) -> set[Key]:
    """The results that a store has of this build; those that failed are not among them."""
    found: set[Key] = set()
    for file in _files(store):
        table = pq.read_table(file, columns=_KEYS, filters=_of_build(build))
        found.update(map(_key, table.to_pylist()))
    return found


def read(
    store: Store, keys: Iterable[Key], build: str, metrics: Sequence[str] | None = None
) -> Iterator[Result]:
    """The results of these keys that a store has, each once, with all or some of their metrics."""
    wanted = set(keys)
    rows = _of_build(build)
    if metrics is not None:
        rows &= pc.field("metric").isin(metrics)
    for file in _files(store):
        for key, same in groupby(pq.read_table(file, filters=rows).to_pylist(), key=_key):
            if key in wanted:
                wanted.discard(key)
                yield _result(list(same))


def _of_build(build: str) -> pc.Expression:
    """The rows of results of a build, in a file."""
    return (pc.field("build") == build) & pc.is_null(pc.field("problem"))


def _result(rows: Sequence[dict[str, Any]]) -> Result:
    first = rows[0]
    tape = SweepTape(*(first[name] for name in _OF_TAPE))
    run = json.loads(first["run"])
    run["metrics"] = [_metric(row) for row in rows]
    return Result(tape, _asked(first), first["members"], run)


def _metric(row: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: row[name] for name in (*_PLAIN, "own", "difference")}
    if row["success"] is not None:
        found["success"] = json.loads(row["success"])
    return found
