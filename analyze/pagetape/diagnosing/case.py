# SPDX-License-Identifier: Apache-2.0
"""The tape under examination: its queries, its facts, and what its recording left out."""

import json
import shlex
from functools import cached_property
from typing import Any

from pagetape import answer
from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import absent, zone_events


class Case:
    """One tape and its database. The results of shared queries are stored."""

    def __init__(self, tape: Tape, database: Database) -> None:
        self.tape = tape
        self._database = database
        self._reports: dict[str, list[dict[str, Any]]] = {}
        span = self.row("span")
        self.seconds, self.covers = float(span["seconds"]), str(span["covers"])
        self.run: dict[str, Any] | None = tape.facts.get("replay")

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of the internal query diagnose.`name`."""
        return self._database.run(query.internal()[f"diagnose.{name}"]).objects()

    def report(self, name: str) -> list[dict[str, Any]]:
        """The rows of a report with its default parameters."""
        if name not in self._reports:
            self._reports[name] = self._database.run(query.reports()[name]).objects()
        return self._reports[name]

    def row(self, name: str) -> dict[str, Any]:
        """The one row of such a query."""
        (row,) = self.rows(name)
        return row

    @cached_property
    def counters(self) -> dict[str, int]:
        """The change of each counter of /proc/vmstat; empty if the tape has none."""
        return {row["name"]: row["change"] for row in self.rows("counters")}

    @cached_property
    def zones(self) -> list[dict[str, Any]]:
        """The zones at the start and, if the tape has two snapshots, at the end."""
        return self.rows("zones")

    @cached_property
    def stalls(self) -> dict[str, Any]:
        """The row of the query `stalls`."""
        return self.row("stalls")

    @cached_property
    def compactions(self) -> list[dict[str, Any]]:
        """The rows of the query `compaction`, longest first."""
        return self.rows("compaction")

    @cached_property
    def mixing(self) -> dict[str, Any]:
        """The row of the query `mixing`."""
        return self.row("mixing")

    @property
    def last_zones(self) -> list[dict[str, Any]]:
        """The zones at the last snapshot."""
        return [z for z in self.zones if z["at_end"]] or self.zones

    @cached_property
    def _seen(self) -> set[str]:
        """Tracepoints with an event on the tape."""
        return absent.seen(self.tape) or set()

    def has(self, table: str, kind: str) -> bool:
        """The tape recorded events of this kind, even if none happened.

        Only pagetape's own recordings list their tracepoints. On others, a kind without an event
        may not have been recorded.
        """
        if table == "event" and self.tape.num_rows("event_count"):
            return kind == "alloc_extfrag"  # a run of a sweep
        if self.run is not None:
            return table == "event" or bool(self.run["reclaim"] != "R0")
        points = next(k.tracepoints for k in TABLES[table].kinds if k.name == kind)
        wanted = self.tape.facts.get("events")
        if wanted is None:
            return not self._seen.isdisjoint(points)
        return not set(points).isdisjoint(
            set(wanted) - set(self.tape.facts.get("skipped_events", []))
        )

    def missing(self, table: str, kind: str) -> str:
        """Why has() is false, in words; empty if it is true."""
        if self.has(table, kind):
            return ""
        if self.run is not None:
            if table == "event":
                return "this run of a sweep stores only fallbacks"
            return "a replay with --reclaim R0 models no reclaim"
        point = next(k.tracepoints[0] for k in TABLES[table].kinds if k.name == kind)
        name = point.partition(":")[2]
        if self.tape.facts.get("events") is None:
            return f"no {name} event: none was recorded, or none happened"
        return f"{name} events were not recorded"

    def command(self, *words: str) -> str:
        """A command line of pagetape; T stands for the tape."""
        path = shlex.quote(str(self.tape.path))
        return " ".join(["pagetape", *(path if word == "T" else word for word in words)])

    def record(self, *options: str) -> str:
        """The command that records what this tape lacks."""
        return " ".join(["pagetape record -o new.tape --duration 60s", *options])

    def smaller(self, task: str | None, order: int = 0) -> str:
        """The replay in which the requests of `task` of that order, or of all orders above 0,
        become requests for single pages; empty where no replay is possible."""
        whole = self.has("event", "alloc") and self.has("event", "free")
        if self.run is not None or not task or not whole or zone_events.is_zone(self.tape):
            return ""
        orders = f"order = {order}" if order else "order > 0"
        rule = f"task = {json.dumps(task, ensure_ascii=False)} and {orders} : order = 0"
        return self.command("replay", "T", "--rewrite", shlex.quote(rule))

    @property
    def page_size(self) -> int:
        """Bytes of a page; 4096 if the tape does not have it."""
        return int(self.tape.facts.get("page_size") or 4096)

    def mib(self, pages: float) -> str:
        """That many pages as MiB."""
        return answer.mib(pages * self.page_size)

    def pages(self, nr: float, more: str = "") -> str:
        """That many pages, also as MiB, and more about them."""
        return answer.pages(nr, self.page_size, more)

    def usable(self, pages: float, at_most: bool) -> str:
        """That many usable pages: '7.2 MiB of that', or 'at most 7.2 MiB of that'."""
        return f"{'at most ' if at_most else ''}{self.mib(pages)} of that"

    def sysctl(self, name: str) -> int | None:
        """The sysctl's number, if the tape has it."""
        text = str((self.tape.facts.get("sysctls") or {}).get(name, ""))
        return int(text) if text.isdecimal() else None

    def sure(self, measured: str) -> str:
        """How sure: `measured`, or the tier if the tape is a replay."""
        if self.run is None:
            return measured
        return f"predicted by the model (tier {self.run['tier']}), one run without its interval"


def percent(share: float) -> str:
    """A percentage in words: '0.03 %', '4.2 %', '85 %'."""
    if share < 0.01:
        return "less than 0.01 %" if share > 0 else "0 %"
    digits = 2 if share < 1 else 1 if share < 10 else 0
    return f"{share:.{digits}f} %"


def of(part: float, whole: float) -> float:
    """`part` as a percentage of `whole`; 0 if whole is 0."""
    return 100 * part / whole if whole else 0.0
