# SPDX-License-Identifier: Apache-2.0
"""Ensembles: a run played several times, each time with other small changes that no event shows.

Under memory pressure one page more or less decides where hundreds of later pages go. One run is
therefore one draw of many. A *member* of an ensemble is the run with changes drawn from a seed
(freerun/variation.h): an entry at one end of a list moves to the other, a list drains or refills
some pages, a zone's counter is off by what a CPU has not added yet. Each change of the first of two
members has its mirror in the second. Where only /proc showed
the start, a member also has another of the starts that the tape leaves possible
(start_variation.py), or another order of the free lists without such a start. Members of two runs
with the same seed have the same changes at the same events, so a comparison member by member shows
the difference of the rules.

How often each kind of change comes is measured on the tape: as often as validate inferred an
outcome of that kind, up to a bound.

Two more kinds of change follow the tape one by one. An inferred row has another moment, drawn from
the window that the tape proves (column `since`). A decision is taken otherwise, at the rate at
which validate missed decisions of its kind (model/flips.h).
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import pyarrow as pa

from pagetape.asking.comparison import Metrics, metrics_of_run
from pagetape.replaying import kernels, players
from pagetape.replaying.playback import Run, Source, identity, is_own
from pagetape.replaying.validation import miss_rates
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape

# The table of the members' metrics.
SCHEMA = TABLES["member"].arrow

# Outcomes of validate that show how often the model is off in a way that a change stands for.
_SHOWN_BY = {
    "moved": ("cut", "moved", "retyped"),
    "sized": ("tuned", "refill", "put_off", "overflow"),
    "counted": ("counted_more", "counted_less", "unboosted", "touched"),
}

# Metrics of a member with this prefix are the numbers of its changes, by kind.
DRAWN = "changes: "

# Decisions of a rate: model/flips.h.
_FLIPS_PER = 1_000_000_000

# Changes of each kind in a run at most.
_MOST_CHANGES = 200


def changes(tape: Tape, inferred: pa.Table) -> dict[str, int]:
    """The changes of each kind, per million rows of `event`, for a tape and its inferred rows."""
    found = Counter(inferred["kind"].to_pylist())
    rows = max(tape.num_rows("event"), 1)
    out = {}
    for change, kinds in _SHOWN_BY.items():
        nr = min(sum(found[kind] for kind in kinds), _MOST_CHANGES)
        out[change] = math.ceil(nr * 1e6 / rows)
    return out


def variation(tape: Tape, inferred: pa.Table) -> dict[str, Any]:
    """The keywords of the engine for a member, except its seed."""
    flips = {kind: round(rate * _FLIPS_PER) for kind, rate in miss_rates(tape).items()}
    return {"changes": changes(tape, inferred), "flips": flips, "moments": True}


def drawn(rows: pa.Table) -> dict[str, dict[str, int]]:
    """The changes of all members of each run, by kind, of rows of the table `member`."""
    found: dict[str, Counter[str]] = {}
    for row in rows.to_pylist():
        if row["metric"].startswith(DRAWN):
            kinds = found.setdefault(row["run"], Counter())
            kinds[row["metric"].removeprefix(DRAWN)] += row["value"]
    return {run: dict(kinds) for run, kinds in found.items()}


class Members(players.CachedTable):
    """The rows of the table `member` for `nr` members of a run, under its label in that table."""

    stored_as = "member"  # the start of its name in the cache

    def __init__(
        self, source: Source, label: str, run: Run, nr: int, *, cached: bool = True
    ) -> None:
        self.label = label
        self._members: dict[int, dict[str, dict[str, Any]]] = {}  # metrics by seed
        tape = source.tape

        def parts() -> list[players.Part]:
            if not nr:
                return []
            _ = source.guesses  # once for all members, which read it on several threads
            varied = variation(tape, source.all_inferred)
            return [
                players.Part(source, run, variation={"seed": seed} | varied)
                for seed in range(1, nr + 1)
            ]

        what = f"{self.stored_as}-{_name(tape, label, run, nr)}" if cached and nr else None
        super().__init__(tape, what, SCHEMA, parts)

    def take(self, part: players.Part) -> None:
        """Measure a member."""
        found = self.measured(part, part.whole())
        for kind, nr in part.drawn.items():
            found[DRAWN + kind] = {"unit": "changes", "tier": "A", "value": nr}
        self._members[part.variation["seed"]] = found

    def measured(self, _part: players.Part, made: Tape) -> Metrics:
        """The metrics of a finished member, by name."""
        return metrics_of_run(made)

    def make(self) -> pa.Table:
        rows = [
            {"run": self.label, "seed": seed, "metric": name}
            | {column: row[column] for column in ("unit", "tier", "value")}
            for seed, found in sorted(self._members.items())
            for name, row in found.items()
        ]
        return pa.Table.from_batches([TABLES["member"].batch(rows)] if rows else [], SCHEMA)


def _name(tape: Tape, label: str, run: Run, nr: int) -> str:
    """The end of that name."""
    rules = json.dumps(identity(tape, run), sort_keys=True)
    key = blake2b(rules.encode(), digest_size=16).hexdigest()
    return f"{label}-{key}-{nr}"


def most(tape: Tape, nr: int) -> int:
    """`nr`, or 0 where the own rules are unknown: of an unknown kernel, and of a replay."""
    return nr if "replay" not in tape.facts and kernels.own(tape) is not None else 0


def play(
    source: Source,
    runs: Mapping[str, Run],
    nr: int,
    *,
    cached: bool = False,
    **how: Any,
) -> pa.Table:
    """Play `nr` members of each run; returns their rows of the table `member`.

    `runs` has each run under its label in that table. `how` is for players.play().
    """
    tasks = [Members(source, *run, nr, cached=cached) for run in runs.items()]
    players.play(tasks, **how)
    return pa.concat_tables([task.table for task in tasks])


def own(source: Source, run: Run, nr: int, **how: Any) -> pa.Table:
    """The members of the own rules, with the inputs of a run; none if they are unknown. Cached."""
    return play(source, {"own": run.own}, most(source.tape, nr), cached=True, **how)


def with_own(source: Source, run: Run, nr: int, **how: Any) -> pa.Table:
    """The members of the own rules, and of the run if it has other rules. Cached."""
    runs = {"own": run.own} if is_own(source.tape, run) else {"own": run.own, "this": run}
    return play(source, runs, most(source.tape, nr), cached=True, **how)
