# SPDX-License-Identifier: Apache-2.0
"""Papers: the figures that their authors published, and what a tape recorded beside each.

    queries/papers/NAME.csv   the published figures, in the authors' order
    queries/papers/NAME.toml  what stands beside them: reports, stacks of policies, or a reason

A [[cell]] of the .toml has globs on table, row, column and machine, and further keys for all
figures that match; of several cells that match, a later one wins. Its keys are those of `Figure`.
A figure without any is not recorded, and not modelled.
Conditions are SQL over a tape's tables. An [[ours]] is a table that no paper has: its rows with
their units, and its columns, which may have a stack each.
"""

import csv
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

from pagetape.asking import needs, query
from pagetape.asking.database import Database
from pagetape.asking.keeping_database import KeepingDatabase
from pagetape.schemas.tape import Tape

# The only reasons for a cell without a value.
NOT_MODELLED = "not modelled"
NOT_RECORDED = "not recorded: "
LACKS = "this machine lacks "
NOT_THIS_KERNEL = "not this kernel"
TOO_SMALL = "n too small ({})"
_UNKNOWN = {"recorded": f"{NOT_RECORDED}no --events has it", "modelled": NOT_MODELLED}
REASONS = (NOT_MODELLED, NOT_RECORDED, LACKS, NOT_THIS_KERNEL, TOO_SMALL.partition("{")[0])

NEVER_PUBLISHED = "never published"  # source of the rows that no paper has

_KEYS = ("table", "row", "column", "machine")

# A tape that does not name its kernel has the features of the newest one: no column's rules.
_KNOWN = "m.kernel_row IS NOT NULL"


@dataclass(frozen=True)
class Figure:
    """One figure, published or of ours, and how it is found.

    recorded  {report, value}: an aggregate over the report's rows; or a reason. `needs` names a
              kind of event, `n` and `least` a number below which there is no value, `otherwise` the
              reason where the tape lacks the report's rows
    modelled  {metric}: one or several metrics, summed; {parameter}: a default; or a reason. `n`
              and `least` as above, of the baseline's members
    stack     the policies of the modelled value
    over      the stack that it is compared with; the paper's baseline if absent
    against   {row, column, ...}: what differs in the figure that this one is compared with
    form      value; percent, reduction or gain relative to the baseline
    scale     factor of the modelled value; share: of the CPUs' time
    when      condition on the tape: its kernel has the rules of this column
    lacks     names in the paper's table `lacks`
    inert     names in `inert`: why the modelled rules cannot act
    remark    a text; or [condition, text] pairs for a recorded value
    note      such pairs for every tape
    follows   the rules of the column are the recorded ones: the model should have that value
    """

    table: str
    row: str
    column: str
    value: str
    unit: str
    machine: str
    kernel: str
    source: str
    keys: dict[str, Any] = field(default_factory=dict, compare=False, kw_only=True)

    @property
    def number(self) -> float | None:
        """The published value; None if it is a text."""
        return float(self.value) if re.fullmatch(r"[+-]?\d+(\.\d+)?", self.value) else None

    @property
    def form(self) -> str:
        return str(self.keys.get("form", "value"))


@dataclass(frozen=True)
class Paper:
    """A paper: its figures, and those of ours that it lacks."""

    name: str
    about: Mapping[str, Any]  # the .toml
    figures: tuple[Figure, ...]
    ours: tuple[Figure, ...]

    @property
    def every(self) -> tuple[Figure, ...]:
        return self.figures + self.ours

    @property
    def tables(self) -> list[str]:
        return list(dict.fromkeys(figure.table for figure in self.every))

    def only(self, tables: Sequence[str]) -> "Paper":
        """The paper with some of its tables."""
        kept = [tuple(f for f in of if f.table in tables) for of in (self.figures, self.ours)]
        return replace(self, figures=kept[0], ours=kept[1])

    def base(self, figure: Figure) -> Figure | None:
        """The figure with which this one is compared."""
        against = figure.keys.get("against")
        if not against:
            return None
        wanted = {key: getattr(figure, key) for key in _KEYS} | against
        found = (f for f in self.every if all(getattr(f, k) == wanted[k] for k in _KEYS))
        base = next(found, None)
        return None if base is figure else base


def names() -> list[str]:
    """The papers."""
    entries = files("pagetape").joinpath("queries", "papers").iterdir()
    return sorted(e.name.removesuffix(".csv") for e in entries if e.name.endswith(".csv"))


@cache
def paper(name: str) -> Paper:
    """A paper by its name."""
    place = files("pagetape").joinpath("queries", "papers")
    about = tomllib.loads(place.joinpath(f"{name}.toml").read_text("utf-8"))
    _, *rows = csv.reader(place.joinpath(f"{name}.csv").read_text("utf-8").splitlines())
    cells = about["cell"]
    published = [_bound(Figure(*row), cells) for row in rows]
    return Paper(name, about, tuple(published), tuple(_ours(about.get("ours", ()), cells)))


def _ours(
    tables: Iterable[Mapping[str, Any]], cells: Sequence[Mapping[str, Any]]
) -> Iterator[Figure]:
    for table in tables:
        stacks = table["columns"] if isinstance(table["columns"], dict) else {}
        for row, unit in table["rows"].items():
            for column in table["columns"]:
                about = (table["table"], row, column, "", unit, "", "", NEVER_PUBLISHED)
                bound = _bound(Figure(*about), cells)
                stack = {"stack": stacks[column]} if column in stacks else {}
                yield replace(bound, keys=bound.keys | stack)


def _bound(figure: Figure, cells: Sequence[Mapping[str, Any]]) -> Figure:
    keys: dict[str, Any] = dict(_UNKNOWN)
    for cell in cells:
        if all(matches(getattr(figure, key), cell[key]) for key in _KEYS if key in cell):
            found = {key: _of_row(figure, of) for key, of in cell.items() if key not in _KEYS}
            keys |= {key: value for key, value in found.items() if value is not None}
    return replace(figure, keys=keys)


def _of_row(figure: Figure, value: Any) -> Any:
    """A key's value for a figure: `values` and `metrics` have one for each row, for {} in `value`;
    None for another row. The number in the row's name stands for {n}, its name for {row}."""
    if not isinstance(value, dict):
        return figure.row if value == "{row}" else value
    if "metrics" in value:
        metric = value["metrics"].get(figure.row)
        return None if metric is None else value | {"metric": metric}
    if "values" in value and figure.row not in value["values"]:
        return None
    number = re.search(r"\d+", figure.row)
    row, n = value.get("values", {}).get(figure.row, ""), number[0] if number else "0"
    filled = value | {"value": value.get("value", "{}")} if row else value
    return {
        key: of.replace("{}", row).replace("{n}", n) if isinstance(of, str) else of
        for key, of in filled.items()
    }


def matches(text: str, globs: str | Sequence[str]) -> bool:
    """Whether a text matches one of the globs of a cell."""
    return any(fnmatchcase(text, one) for one in ([globs] if isinstance(globs, str) else globs))


@dataclass(frozen=True)
class Cell:
    """What a tape has of a figure: a number or a reason."""

    value: float | str
    inert: str | None = None  # why the modelled rules cannot act here
    lacks: str | None = None  # the reason, for the modelled value, too
    remark: str | None = None


def recorded(paper: Paper, tape: Tape) -> list[Cell]:
    """A cell for each figure of `paper.every`, with values that are not yet relative to a base."""
    known = _conditions(paper, tape)
    found = _values(paper, tape)
    return [_cell(paper, figure, known, found) for figure in paper.every]


def _cell(
    paper: Paper,
    figure: Figure,
    known: Mapping[str, bool | None],
    found: Mapping[tuple[str, str], float | str],
) -> Cell:
    keys = figure.keys
    names = ((name, paper.about["lacks"][name]) for name in keys.get("lacks", ()))
    lack = next((LACKS + name for name, has in names if known[has] is False), None)
    idle = ((why, paper.about["inert"][why]) for why in keys.get("inert", ()))
    inert = next((why for why, sql in idle if known[sql]), None)
    value: float | str
    if lack is not None:
        value = lack
    elif "when" in keys and not (known[keys["when"]] and known[_KNOWN]):
        value = NOT_THIS_KERNEL
    else:
        value = _value(figure, found)
    remarks = keys.get("remark", [])
    if isinstance(remarks, str):
        return Cell(value, inert, lack, remarks)
    true = [text for when, text in remarks if known[when] and not isinstance(value, str)]
    true += [text for when, text in keys.get("note", ()) if known[when]]
    return Cell(value, inert, lack, "; ".join(true) or None)


def _value(figure: Figure, found: Mapping[tuple[str, str], float | str]) -> float | str:
    how = figure.keys["recorded"]
    if isinstance(how, str):
        return how
    value = found[how["report"], how["value"]]
    if isinstance(value, str):
        return str(how.get("otherwise", value)) if value.startswith(NOT_RECORDED) else value
    if "n" in how:
        nr = found[how["report"], how["n"]]
        if isinstance(nr, str):
            return nr
        if nr < how["least"]:
            return TOO_SMALL.format(f"{nr:.0f}")
    return value


def _conditions(paper: Paper, tape: Tape) -> dict[str, bool | None]:
    """Every condition of the paper on a tape."""
    wanted = [*paper.about.get("lacks", {}).values(), *paper.about.get("inert", {}).values()]
    for figure in paper.every:
        keys = figure.keys
        remarks = keys.get("remark", [])
        wanted += [keys["when"]] if "when" in keys else []
        wanted += [] if isinstance(remarks, str) else [when for when, _ in remarks]
        wanted += [when for when, _ in keys.get("note", ())]
    wanted = list(dict.fromkeys([_KNOWN, *wanted]))
    columns = ", ".join(f"({sql}) AS c{i}" for i, sql in enumerate(wanted))
    with Database([tape]) as db:
        about = replace(query.reports()["loss"], name=f"paper.{paper.name}")
        ((*values,),) = db.run(replace(about, sql=f"SELECT {columns} FROM machine AS m")).rows
    return dict(zip(wanted, values, strict=True))


def _values(paper: Paper, tape: Tape) -> dict[tuple[str, str], float | str]:
    """The value of each (report, aggregate), or why there is none."""
    wanted: dict[str, dict[str, None]] = {}
    kinds: dict[str, set[str]] = {}
    for figure in paper.every:
        how = figure.keys["recorded"]
        if not isinstance(how, str):
            for key in ("value", "n"):
                if key in how:
                    wanted.setdefault(how["report"], {})[how[key]] = None
            kinds.setdefault(how["report"], set()).update(how.get("needs", ()))
    reports = query.reports()
    asked = {}
    found: dict[tuple[str, str], float | str] = {}
    for name, values in wanted.items():
        if lack := _lacking(reports[name], kinds[name], tape):
            found |= {(name, value): lack for value in values}
            continue
        columns = ", ".join(f"{sql} AS c{i}" for i, sql in enumerate(values))
        report = reports[name]
        asked[name] = replace(report, sql=f"SELECT {columns} FROM (\n{report.sql}\n)")
    if asked:
        with KeepingDatabase([tape], [*asked.values()]) as db:
            for name, question in asked.items():
                ((*row,),) = db.run(question).rows
                for sql, value in zip(wanted[name], row, strict=True):
                    empty = value is None
                    found[name, sql] = TOO_SMALL.format(0) if empty else _plain(value)
    return found


def _plain(value: Any) -> float:
    number = float(value)
    return int(number) if number.is_integer() else number


def _lacking(report: query.Query, kinds: set[str], tape: Tape) -> str | None:
    """Why the tape has no rows for the report."""
    line = needs.lacking(replace(report, needs=(*report.needs, *((kind,) for kind in kinds))), tape)
    if line is None:
        return None
    option = re.search(r"pagetape record (--\S+ \S+)", line)
    return NOT_RECORDED + (option[1] if option else "no --events has it")


def relative(value: float, base: float, form: str) -> float:
    """A value in a form relative to its base, which is not 0."""
    share = value / base
    return {"percent": 100 * share, "reduction": 100 * (1 - share), "gain": 100 * (share - 1)}[form]


def of_tapes(paper: Paper, tapes: Sequence[Tape]) -> list[list[Cell]]:
    """recorded() of each tape; a relative figure needs a tape that has the rules of its base."""
    cells = [recorded(paper, tape) for tape in tapes]
    place = {id(figure): i for i, figure in enumerate(paper.every)}
    return [
        [_related(paper, figure, own[i], cells, place) for i, figure in enumerate(paper.every)]
        for own in cells
    ]


def _related(
    paper: Paper,
    figure: Figure,
    cell: Cell,
    cells: Sequence[Sequence[Cell]],
    place: Mapping[int, int],
) -> Cell:
    if figure.form == "value" or isinstance(cell.value, str):
        return cell
    base = paper.base(figure)
    if base is None and figure.form == "percent":
        return replace(cell, value=100)  # this is the base
    found = [of[place[id(base)]].value for of in cells] if base else []
    first = next((value for value in found if not isinstance(value, str)), None)
    if not first:
        why = f"{cell.value:.4g} before normalising: give a tape of each side"
        return replace(cell, value=TOO_SMALL.format(len(cells)), remark=why)
    return replace(cell, value=relative(cell.value, first, figure.form))
