# SPDX-License-Identifier: Apache-2.0
"""Tapes as objects: pagetape.open(), and pagetape.compare()."""

import glob
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from pagetape import answer, console
from pagetape.api.error import Error, explained
from pagetape.api.figure import Figure, over_time
from pagetape.api.relation import Relation, html_table
from pagetape.api.result import Compared, Played
from pagetape.asking import query
from pagetape.asking.database import Database, labels
from pagetape.asking.span import Span
from pagetape.replaying import MEMBERS, RECLAIM_AUTO, RECLAIM_MODES, presets
from pagetape.replaying.playback import NewTape, Run, Source, check, in_mode, is_own
from pagetape.replaying.prediction import compare as compare_tapes
from pagetape.replaying.prediction import label, predict
from pagetape.replaying.validation import inferred, preferences
from pagetape.replaying.validation import validate as validate_tape
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape
from pagetape.tapes import origin
from pagetape.tapes.info import describe

_Path: TypeAlias = str | os.PathLike[str]

_FACTS = ("machine", "node_distance")  # views that Database makes of the tapes' facts


def _views() -> list[str]:
    return [*TABLES, *_FACTS, *(view.name for view in query.views())]


class Tapes:
    """One tape or several, opened for questions.

    Every table of a tape and every view is an attribute: `t.event`. `t[a:b]` has the events from
    second a to second b only; snapshots stay, whenever they were taken. Statements see the tapes
    alone; with `unsafe` they may read and write files as well.
    """

    def __init__(
        self, tapes: Sequence[Tape], span: Span | None = None, unsafe: bool = False
    ) -> None:
        self._tapes = tuple(tapes)
        self._span = span
        self._unsafe = unsafe

    # ---- what they are

    @property
    def paths(self) -> list[Path]:
        """The directories of the tapes."""
        return [tape.path for tape in self._tapes]

    @property
    def names(self) -> list[str]:
        """The short name of each tape: column `tape` of every table."""
        return labels(self._tapes)

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the machine, of one tape."""
        return self._one("facts").facts

    def info(self) -> list[dict[str, Any]]:
        """For each tape the object of `pagetape info --json`."""
        with explained():
            return [describe(tape) for tape in self._tapes]

    def __iter__(self) -> "Iterator[Tapes]":
        """Each tape on its own."""
        return (Tapes([tape], self._span, self._unsafe) for tape in self._tapes)

    def __len__(self) -> int:
        return len(self._tapes)

    def __getitem__(self, part: slice) -> "Tapes":
        """The part from second `start` to second `stop`; negative ones count from the end."""
        if not isinstance(part, slice):
            raise Error(f"a tape has no part {part!r}: take seconds, as in t[0:10]")
        if part.step is not None:
            raise Error("a part has a begin and an end in seconds, no step")
        for second in (part.start, part.stop):
            if not (second is None or isinstance(second, int | float)):
                raise Error(f"{second!r} is not a number of seconds")
        return Tapes(self._tapes, Span(part.start, part.stop, self._span), self._unsafe)

    # ---- questions

    @cached_property
    def _database(self) -> Database:
        return Database(self._tapes, span=self._span, unsafe=self._unsafe)

    def sql(self, statement: str, **values: Any) -> Relation:
        """The answer to one statement of DuckDB's SQL; `$name` in it is the value `name`."""
        with explained():
            found = self._database.relation(statement, values)
            if found is None:
                raise Error("the statement has no rows")
            return Relation(found, self._database, "SQL")

    def report(self, name: str, **values: Any) -> Relation:
        """The rows of a report; `values` are its options. pagetape.reports() has all reports."""
        known = query.reports()
        if name not in known:
            near = [other for other in known if name.partition(".")[0] in other]
            raise Error(f"no report '{name}' (there are: {', '.join(near or known)})")
        report = known[name]
        if unknown := set(values) - {parameter.name for parameter in report.parameters}:
            options = ", ".join(parameter.name for parameter in report.parameters) or "none"
            raise Error(f"{name} has no option '{min(unknown)}' (there are: {options})")
        if len(self._tapes) > 1 and not report.several:
            raise Error(f"{name} takes one tape: `for tape in tapes: tape.report('{name}')`")
        with explained():
            origin.check_together(self._tapes)
            said = [report.title.rstrip("."), *origin.lines(self._tapes, self.names)]
            return Relation(
                self._database.relation(report, values), self._database, "; ".join(said)
            )

    def __getattr__(self, name: str) -> Relation:
        if name.startswith("_") or name not in _views():
            raise AttributeError(f"no table or view '{name}'", name=name, obj=self)
        with explained():
            found = self._database.relation(f'FROM "{name}"')
        return Relation(found, self._database, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_views()})

    # ---- the model

    def replay(
        self,
        policy: str | Sequence[str] = (),
        *,
        kernel: str = "auto",
        reclaim: str = RECLAIM_AUTO,
        ensemble: int = MEMBERS,
        output: _Path | None = None,
    ) -> "Replay":
        """Play the tape through the model, as `pagetape replay` does.

        `policy` is a policy, "nofragment:mode=always", or several. The tape of the replay goes to
        `output`, or to a temporary directory that lives as long as the result.
        """
        tape = self._one("replay()", whole=True)
        stack = presets.expand([policy] if isinstance(policy, str) else policy)
        modes = (RECLAIM_AUTO, *RECLAIM_MODES)
        if reclaim not in modes:
            raise Error(f"no reclaim mode '{reclaim}' (there are: {', '.join(modes)})")
        with explained():
            check(tape, Run(kernel, stack))
            run = in_mode(tape, Run(kernel, stack), reclaim)
            what = None if is_own(tape, run) else label(run)
            source = Source(tape, inferred(tape), preferences(tape))
            home = Path(tempfile.mkdtemp(prefix="pagetape-replay-")) if output is None else None
            place = home / _file_name(what) if home else Path(output or "")
            try:
                result = predict(source, run, ensemble, NewTape(place), console.progress)
                return Replay(Played(result, what), Tape(place), home)
            except BaseException:
                _remove(home)
                raise

    def validate(self, kernel: str = "auto") -> dict[str, Any]:
        """How exact the model's predictions are: the object of `pagetape validate --json`."""
        tape = self._one("validate()", whole=True)
        with explained():
            return validate_tape(tape, kernel)

    def compare(self, *others: "_Path | Tapes", ensemble: int = MEMBERS) -> Compared:
        """pagetape.compare() of these tapes and others."""
        return compare(self, *others, ensemble=ensemble)

    # ---- notebooks

    def plot(self, name: str = "fallbacks") -> Figure:
        """A plot over time, `fallbacks` or `traffic`; several tapes have equal scales."""
        with explained():
            origin.check_together(self._tapes)
        found = {}
        for one, short in zip(self, self.names, strict=True):
            with explained():
                clock = one._database.relation("SELECT start_ts, end_ts FROM machine")
                ((start, end),) = one._database.evaluate(clock.fetchall)
            seconds = 0.0 if start is None else (end - start) / 1e9
            found[short] = (one._database, seconds)
        return over_time(name, found)

    def _one(self, what: str, *, whole: bool = False) -> Tape:
        if len(self._tapes) != 1:
            raise Error(f"{what} takes one tape, not {len(self._tapes)}: `for tape in tapes: ...`")
        if whole and self._span is not None:
            raise Error(f"{what} takes a whole tape: the state at the begin of a part is unknown")
        return self._tapes[0]

    def _lines(self) -> tuple[list[str], list[list[object]]]:
        columns = ["tape", "kernel", "CPUs", "nodes", "seconds", "events", "lost"]
        keys = ("kernel", "cpus", "nodes", "duration_s", "stored", "lost")
        infos = zip(self.names, self.info(), strict=True)
        return columns, [[name, *(info[key] for key in keys)] for name, info in infos]

    def __repr__(self) -> str:
        columns, lines = self._lines()
        return answer.table(columns, lines)

    def _repr_html_(self) -> str:
        return html_table("Tapes" if len(self) > 1 else "Tape", *self._lines())


class Replay(Tapes):
    """The tape of a replay, with what the replay said: print(it), it.metric("fallbacks")."""

    def __init__(self, played: Played, tape: Tape, home: Path | None) -> None:
        """`home`: a directory that is removed with this object."""
        super().__init__([tape])
        self.result = played
        weakref.finalize(self, _remove, home)

    def json(self) -> dict[str, Any]:
        """The object of `pagetape replay --json`."""
        return self.result.json()

    def metric(self, name: str) -> dict[str, Any]:
        """One metric: recorded, by the own rules, in this run, and the difference."""
        return self.result[name]

    def __repr__(self) -> str:
        return repr(self.result)

    def _repr_html_(self) -> str:
        return self.result._repr_html_()


def _file_name(what: str | None) -> str:
    """The name of a replay's tape, which is its name in comparisons."""
    words = re.sub(r"[^\w.+-]+", "-", what or "own rules").strip("-")
    return f"{words[:80]}.tape"


def _remove(directory: Path | None) -> None:
    if directory is not None:
        shutil.rmtree(directory, ignore_errors=True)


def _found(place: _Path) -> list[Path]:
    """The paths that a path or a pattern names."""
    path = Path(place)
    if path.exists() or not glob.has_magic(str(place)):
        return [path]
    found = [Path(name) for name in sorted(glob.glob(str(place)))]  # noqa: PTH207
    if not found:
        raise Error(f"no tape matches '{place}'")
    return found


def open(*places: _Path, unsafe: bool = False) -> Tapes:
    """Open tapes for questions: paths, or patterns as "night/*.tape".

    `unsafe`: SQL and relations may read and write files, and load extensions of DuckDB.
    """
    paths = [path for place in places for path in _found(place)]
    if not paths:
        raise Error("name a tape, as in pagetape.open('base.tape')")
    with explained():
        return Tapes([Tape(path) for path in paths], unsafe=unsafe)


def compare(base: _Path | Tapes, *others: _Path | Tapes, ensemble: int = MEMBERS) -> Compared:
    """Compare the first tape with the others, as `pagetape compare` does.

    A replay of the first tape that has no members is played `ensemble` times for its intervals.
    """
    given = [one if isinstance(one, Tapes) else open(one) for one in (base, *others)]
    tapes = [tape for one in given for tape in one._tapes]
    if any(one._span for one in given):
        raise Error("compare() takes whole tapes, no parts")
    if len(tapes) < 2:
        raise Error("compare() takes two tapes or more")
    with explained():
        return Compared(compare_tapes(tapes, ensemble, console.progress))
