#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fleet of many hosts: what questions about it cost, and what its archive holds.

    fleet.py [--hosts N] [--days D] [--tapes N] [--keep DIR] [--quiet T.tape]... [T.tape]...

Makes the index and the aggregates of an archive of N hosts over D days, with N tapes a day from
each host, out of the rows of real tapes (the demo's, without T.tape): shifted in time, of machines
of their own, on four kernels. A host has the rows of one real tape and a level, and most of its
tapes have few fallbacks or none. Then it asks the archive, each time in a new process, and computes
the percentiles of extfrag.by_migratetype again, from the Parquet files and without the views. Exit
status 1 if one differs. With --keep the archive stays in DIR; one that is there is asked as it is.

The second part puts the real tapes, as those of some hosts, into an archive and compacts it: CPU
and bytes for each tape. `--quiet` names five-minute tapes of a rotation of the event set cheap: the
same for them, and they are the tapes of a host. The table `scale` multiplies these figures by
100,000 hosts.
"""

import json
import resource
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date, timedelta
from hashlib import blake2b
from io import BytesIO
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import program
import pyarrow as pa
import pyarrow.parquet as pq
import shipping

from pagetape.archive import names
from pagetape.archive.store import Store, open_store
from pagetape.asking import archived
from pagetape.indexing import host_rows, manifest
from pagetape.indexing.compact import Compactor, dates
from pagetape.indexing.manifest import Manifest, Segment
from pagetape.schemas.tape import Tape

DEMO = program.ROOT / "analyze/demo"
KERNELS = ("6.1.158", "6.12.57", "6.12.63", "6.18.2")
FIRST = date(2026, 11, 1)
HOSTS = 100_000  # of the table `scale`
MINUTES = 5  # that a tape covers there
BUSY, QUIET = "busy", "quiet"
REAL_HOSTS = {BUSY: 6, QUIET: 40}  # with a real tape each

# Prices of S3's standard class in us-east-1, dollars: 1000 PUTs, 1000 GETs, a GB for a month.
PUT, GET, STORED = 0.005, 0.0004, 0.023

PERCENTILES = "percentiles by kernel"  # the question whose answer is computed again
_BY_TYPE = "extfrag.by_migratetype"
QUESTIONS = {
    PERCENTILES: f"{_BY_TYPE} --by kernel",
    "percentiles by kernel, one day": f"{_BY_TYPE} --by kernel --since {{last}}",
    "percentiles by kernel, tapes without losses": f"{_BY_TYPE} --by kernel --where 'lost = 0'",
    "percentiles of one kernel": f"{_BY_TYPE} --where \"kernel LIKE '6.12%'\"",
    "coverage": "fleet.coverage",
    "trend": "fleet.trend",
    "regressions between kernels": "fleet.regressions",
    "outliers": "fleet.outliers",
}


def _real(place: Path, tapes: Sequence[Path], hosts: int) -> Iterator[Path]:
    """The tapes as recordings of some machines of one day, in one file each."""
    for nr in range(hosts):
        digest = blake2b(str(nr).encode(), digest_size=16).hexdigest()
        yield shipping.copied(
            Tape(tapes[nr % len(tapes)]),
            place / f"{nr}.tape",
            machine=digest,
            host=f"host{nr}",
            boot_id=digest,
            recorded_at=f"{FIRST}T12:00:00+00:00",
        )


def _cpu() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def compacted(root: Path, tapes: Sequence[Path], kind: str) -> dict[str, float]:
    """Make an archive of real tapes with its index; what each tape of that kind costs."""
    store = open_store(root, create=True)
    with TemporaryDirectory(prefix="fleet-") as place:
        real = [*_real(Path(place), tapes, REAL_HOSTS[kind])]
        size = sum(path.stat().st_size for path in real)
        began = _cpu()
        for path in real:
            store.put_new(names.object_name(Tape(path)), path)
        put, began = _cpu() - began, _cpu()
        for day in dates(store):
            Compactor(store).run(day)
        made = _cpu() - began
    index = sum(one.size for one in store.list("index/v1/data"))
    nr = len(real)
    return {
        f"{kind} tape, bytes": round(size / nr),
        f"{kind} tape, CPU ms to put": round(1000 * put / nr, 1),
        f"{kind} tape, CPU ms to compact": round(1000 * made / nr, 1),
        f"{kind} tape, bytes of index and aggregates": round(index / nr),
    }


def _rows(store: Store, table: str) -> pa.Table:
    """The rows of a table of all days of a small archive."""
    parts = [
        pq.read_table(BytesIO(store.get(manifest.data_name(day, segment.identity, table))))
        for day in dates(store)
        for segment in manifest.latest(store, day).segments
        if table in segment.files
    ]
    return pa.concat_tables(parts, promote_options="permissive")


# Of each tape of a day, by its number: machine and time; then some cells of real tapes.
_TAPES = """
    CREATE OR REPLACE TABLE tape AS
    SELECT
        t.* REPLACE (
            i::UINTEGER AS number,
            md5(concat('{day}', i)) AS identity,
            '{day}' AS date,
            {size} AS bytes,
            md5(concat('machine ', i // {each})) AS machine,
            concat('host', i // {each}) AS host,
            {kernels}[1 + (hash(i // {each}, 'kernel') % {nr_kernels})::BIGINT] AS kernel,
            [16, 64, 256, 512][1 + (hash(i // {each}, 'memory') % 4)::BIGINT]::DOUBLE AS mem_gb,
            TIMESTAMP '{day}' + to_seconds((i % {each}) * 86400 / {each}) AS began,
            TIMESTAMP '{day}' + to_seconds((i % {each} + 1) * 86400 / {each}) AS ended,
            24 / {each} AS hours,
            'cheap' AS event_set,
            NULL AS recorded,
            0 AS lost
        )
    FROM range({nr}) AS r (i)
    JOIN template AS t ON t.place = i // {each} % {templates}
    ORDER BY i
"""
_CELLS = """
    WITH drawn AS MATERIALIZED (  -- which cells, before any cell is joined
        SELECT
            i::UINTEGER AS tape,
            t.number,
            (hash(i, j, '{table}') % t.of)::BIGINT AS place,
            hash(i, j, '{day}') AS draw,
            pow(6, (hash(i // {each}, 'level') % 1000) / 500 - 1) AS level
        FROM range({nr}) AS r (i)
        CROSS JOIN range(3) AS k (j)
        JOIN (SELECT DISTINCT number, of FROM {table}_cell) AS t
            ON t.number = i // {each} % {templates}
        WHERE hash(i, j, '{day}', 'busy') % 2 = 0
    )
    SELECT
        c.* EXCLUDE (place, of)
        REPLACE (ceil({count} * level * (1 + draw % 7) / 40) AS {count}, tape AS number)
    FROM drawn
    JOIN {table}_cell AS c USING (number, place)
    ORDER BY tape
"""
_CELL = ("alloc_migratetype", "fallback_migratetype", "kind", "below_pageblock")
_COUNTS = {"extfrag": "events", "event": "events", "reclaim": "runs", "stall": "stalls"}


def fleet(root: Path, real: Path, hosts: int, days: int, each: int, size: int) -> None:
    """The index of many hosts, out of the rows of an archive of real tapes."""
    store, db = open_store(root, create=True), duckdb.connect()
    (root / names.TAPES).mkdir()
    for table in ("tape", *_COUNTS):
        db.register("found", _rows(open_store(real), table))
        name = "template" if table == "tape" else f"{table}_cell"
        over = "OVER ()" if table == "tape" else "OVER (PARTITION BY number)"
        columns = f"row_number() {over} - 1 AS place, count(*) {over} AS of"
        db.execute(f"CREATE TABLE {name} AS SELECT *, {columns} FROM found")
    how: dict[str, Any] = {"nr": hosts * each, "each": each, "size": size}
    how |= {"kernels": list(KERNELS), "nr_kernels": len(KERNELS)}
    ((how["templates"],),) = db.execute("SELECT count(*) FROM template").fetchall()
    for nr in range(days):
        day = str(FIRST + timedelta(days=nr))
        files = {}
        db.execute(_TAPES.format(day=day, **how))
        tables = {"tape": db.table("tape").to_arrow_table()}
        for table, count in _COUNTS.items():
            sql = _CELLS.format(day=day, table=table, count=count, **how)
            tables[table] = db.sql(sql).to_arrow_table()
        known = archived.tables()
        of_tapes = {t: rows.select(known[t].names).cast(known[t]) for t, rows in tables.items()}
        for table, rows in host_rows.with_hosts(of_tapes.items()):
            content = _parquet(rows)
            files[table] = len(content)
            store.put_new(manifest.data_name(day, f"00000001-{nr:08x}", table), content)
        segment = Segment(f"00000001-{nr:08x}", hosts * each, files)
        manifest.put(store, Manifest(day, 1, (segment,)), {"by": "fleet.py"})
        program.say(f"fleet: {day}: {hosts * each:,} tapes")


def totals(root: Path) -> dict[str, int]:
    """How much of everything an archive's index has."""
    store = open_store(root)
    known = [manifest.latest(store, day) for day in manifest.generations(store)]
    tapes = sum(one.tapes for one in known)
    size = sum(sum(part.files.values()) for one in known for part in one.segments)
    rows = sum(pq.read_metadata(p).num_rows for p in root.glob("index/v1/data/*/*.extfrag.parquet"))
    found = {"days": len(known), "tapes": tapes, "rows of extfrag": rows}
    return found | {"bytes of the index": size, "bytes of the index a tape": round(size / tapes)}


def _parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return bytes(sink.getvalue())


def asked(root: Path, question: str) -> tuple[dict[str, Any], dict[str, float]]:
    """The answer of a report, and what its process took."""
    last = str(max(manifest.generations(open_store(root))))
    report, *words = shlex.split(question.format(last=last))
    argv = [program.BIN / "pagetape", "report", report, root, "--json", *words]
    began = time.monotonic()
    with subprocess.Popen(list(map(str, argv)), stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        text = child.stdout.read()
        cpu, mib = program.taken(child)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, argv)
    return json.loads(text), {
        "rows": len(json.loads(text)["rows"]),
        "CPU, s": round(cpu, 2),
        "elapsed, s": round(time.monotonic() - began, 2),
        "MiB": round(mib),
    }


def recomputed(root: Path) -> dict[tuple[Any, ...], tuple[float, ...]]:
    """p50, p90 and p99 over hosts of fallbacks per hour, by kernel, types, kind and size: sums of
    the Parquet files by SQL of this program, percentiles of `statistics` (numpy's default)."""
    db, hours, events = duckdb.connect(), Counter[Any](), Counter[Any]()
    for path in sorted(root.glob("index/v1/data/*/*.tape.parquet")):
        rows = str(path).replace(".tape.", ".extfrag.")
        sql = f"SELECT kernel, machine, sum(hours) FROM '{path}' GROUP BY ALL"
        for *host, some in db.execute(sql).fetchall():
            hours[tuple(host)] += some
        sql = f"""
            SELECT kernel, machine, {", ".join(_CELL)}, sum(e.events)
            FROM '{rows}' AS e JOIN '{path}' AS t USING (number)
            GROUP BY ALL
        """
        for *cell, count in db.execute(sql).fetchall():
            events[tuple(cell)] += count
    found = {}
    for kernel, cell in product({key[0] for key in hours}, {key[2:] for key in events}):
        rates = [events[(*h, *cell)] / some for h, some in hours.items() if h[0] == kernel]
        cuts = quantiles(rates, n=100, method="inclusive")
        found[(kernel, *cell)] = (cuts[49], cuts[89], cuts[98])
    return found


def _same(root: Path, answer: dict[str, Any]) -> bool:
    """Whether the percentiles of the report are those of recomputed()."""
    ours = recomputed(root)
    keys = ("kernel", *_CELL)
    its = {
        tuple(row[key] for key in keys): tuple(row[name] for name in ("p50", "p90", "p99"))
        for row in answer["rows"]
    }
    return its.keys() == ours.keys() and all(
        all(abs(a - b) < 2e-6 for a, b in zip(its[key], ours[key], strict=True)) for key in ours
    )


def scale(costs: dict[str, float], kind: str) -> dict[str, Any]:
    """What 100,000 hosts take, with one tape of that kind each five minutes."""
    a_day, second = HOSTS * 24 * 60 // MINUTES, HOSTS / 60 / MINUTES  # tapes
    tape, index = costs[f"{kind} tape, bytes"], costs[f"{kind} tape, bytes of index and aggregates"]
    put, compact = (costs[f"{kind} tape, CPU ms to {step}"] / 1000 for step in ("put", "compact"))
    month = 30 * a_day
    figures = {
        "tapes a day": a_day,
        "tapes (PUT requests) a second": round(second),
        "bytes a day, TB": round(tape * a_day / 1e12, 2),
        "bytes a second, MB": round(tape * second / 1e6, 1),
        "objects in 30 days, million": round(month / 1e6),
        "bytes of tapes in 30 days, TB": round(tape * month / 1e12, 1),
        "bytes of the index in 30 days, GB": round(index * month / 1e9, 1),
        "CPUs to put them": round(put * second, 1),
        "CPUs to compact them": round(compact * second, 1),
        "dollars a month, PUT of the tapes": round(month / 1000 * PUT),
        "dollars a month, GET by the compactors": round(month / 1000 * GET),
        "dollars a month, storage of 30 days": round(tape * month / 1e9 * STORED),
    }
    return program.table(("figure", "value"), figures.items())


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--tapes", type=int, default=24 * 60 // MINUTES)
    parser.add_argument("--keep", type=Path, help="the archive, which stays")
    parser.add_argument("--quiet", type=Path, action="append", default=[])
    parser.add_argument("paths", nargs="*", type=Path, metavar="T.tape")
    given = parser.parse_args()
    tapes = given.paths or sorted(DEMO.glob("*.tape"))
    with TemporaryDirectory(prefix="fleet-") as temporary:
        root, real = given.keep or Path(temporary) / "fleet", Path(temporary) / "real"
        kind = QUIET if given.quiet else BUSY
        # What makes archives is another process: a question's memory begins with this one's.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            costs = pool.submit(compacted, real, tapes, BUSY).result()
            if given.quiet:
                quiet = Path(temporary) / "quiet"
                costs |= pool.submit(compacted, quiet, given.quiet, QUIET).result()
            size = int(costs[f"{kind} tape, bytes"])
            if not root.exists():
                pool.submit(fleet, root, real, given.hosts, given.days, given.tapes, size).result()
        questions, same = [], False
        for name, question in QUESTIONS.items():
            answer, took = asked(root, question)
            questions.append({"question": name} | took)
            program.say(f"fleet: {name}: {took}")
            if name == PERCENTILES:
                same = _same(root, answer)
        program.give(
            {
                "questions": questions,
                "fleet": totals(root) | {"percentiles as recomputed": same},
                "tape": costs,
                "host": {"objects a day": given.tapes, "bytes a day": size * given.tapes},
                "scale": scale(costs, kind),
            }
        )
    return 0 if same else 1


if __name__ == "__main__":
    program.run(main)
