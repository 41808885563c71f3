# SPDX-License-Identifier: Apache-2.0
"""Rules that put other requests in the place of recorded ones: what if the caller asked otherwise?

    RULE   = CONDITION and CONDITION ... : CHANGE, CHANGE ...

    CONDITION                                       CHANGE
    task = "NAME"     task ~ "REGEX"                order = N x TIMES
    cgroup = "PATH"   cgroup ~ "REGEX"              order = N
    pid = N                                         migratetype = NAME
    order = N         also !=, <, <=, >, >=         drop FLAG|FLAG
    migratetype = NAME                              add FLAG|FLAG
    gfp has FLAG      gfp lacks FLAG                drop
    stack ~ "REGEX"   time >= 5s, also <, <=, >

`stack` is the kernel stack of the request, if the tape has it (record --stacks): its functions,
outermost first, joined by semicolons. A rule without a condition is of every request. The first
rule that fits a request counts. The engine has the rest: replay/freerun/rewrite.h.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import conditions
from pagetape.conditions import MOST_ORDERS, NEVER, Condition, RuleError, Text, Tokens
from pagetape.schemas import GFP_BITS, MIGRATETYPES
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import zone_events

# The flag by which the kernel finds the migratetype of a request (gfp_migratetype).
_TYPE_FLAGS = {
    "UNMOVABLE": 0,
    "MOVABLE": 1 << GFP_BITS.index("MOVABLE"),
    "RECLAIMABLE": 1 << GFP_BITS.index("RECLAIMABLE"),
}

_EXAMPLE = """'task ~ "db" and order = 3 : order = 0 x 8'"""


@dataclass
class Rule(Condition):
    """One rule: the engine's fields (struct rewrite_rule), and the conditions on texts."""

    text: str = ""
    drop: bool = False
    order: int = -1
    times: int = 0
    migratetype: int = -1
    gfp_clear: int = 0
    gfp_set: int = 0

    @property
    def changes_nothing(self) -> bool:
        """Whether each request that it fits becomes itself."""
        same_order = self.order < 0 or (self.orders == 1 << self.order and self.times < 2)
        same_type = self.migratetype < 0 or self.migratetypes == 1 << self.migratetype
        same_flags = not (self.gfp_clear & ~self.gfp_lacks or self.gfp_set & ~self.gfp_has)
        return not self.drop and same_order and same_type and same_flags


def _change(rule: Rule, tokens: Tokens) -> None:
    what = tokens.take("order", "migratetype", "drop", "add")
    if what == "order":
        tokens.take("=")
        rule.order = tokens.number(MOST_ORDERS, "an order")
        if tokens.next == "x":
            tokens.take("x")
            rule.times = tokens.number(1 << 20, "a number of requests")
            if not rule.times:
                raise RuleError("'x 0' leaves no request: write ': drop'")
    elif what == "migratetype":
        tokens.take("=")
        name = tokens.take(what="a migratetype").upper()
        if name not in _TYPE_FLAGS:
            raise RuleError(f"a request has the migratetype {', '.join(_TYPE_FLAGS)}, not '{name}'")
        rule.migratetype = MIGRATETYPES.index(name)
    elif what == "add":
        rule.gfp_set |= conditions.flags(tokens)
    elif tokens.next in ("", ","):
        rule.drop = True
    else:
        rule.gfp_clear |= conditions.flags(tokens)


def parse(text: str) -> Rule:
    """The rule in `text`; raises RuleError."""
    rule, tokens = Rule(text=text), Tokens(text)
    while tokens.next != ":":
        conditions.add(rule, tokens)
        if tokens.next != ":":
            tokens.take("and", ":", what="'and' or ':'")
    tokens.take(":")
    _change(rule, tokens)
    while tokens.next:
        tokens.take(",")
        _change(rule, tokens)
    if rule.order >= 0:
        _check_pages(rule)
    return rule


def _check_pages(rule: Rule) -> None:
    """No request may ask for more pages than it did: the record does not say which they would be.

    A rule with another order leaves smaller requests out.
    """
    rule.orders &= conditions.ALL << rule.order & conditions.ALL
    if not rule.orders:
        raise RuleError(f"order = {rule.order} is above the orders of the condition")
    least = (rule.orders & -rule.orders).bit_length() - 1
    if rule.times << rule.order > 1 << least:
        wanted = (rule.times - 1).bit_length() + rule.order
        raise RuleError(
            f"{rule.times} requests of order {rule.order} have more pages than one of order"
            f" {least}: write a condition such as order >= {wanted}"
        )


def rules(texts: Sequence[str]) -> list[Rule]:
    """The rules, without those that change nothing. RuleError names the rule."""
    found = []
    for text in texts:
        try:
            found.append(parse(text))
        except RuleError as e:
            raise RuleError(f"'{text}': {e} (example: {_EXAMPLE})") from None
    return [rule for rule in found if not rule.changes_nothing]


def check(tape: Tape) -> None:
    """Raise TapeError unless the tape has the requests that rules rewrite."""
    if zone_events.is_zone(tape):
        raise TapeError(
            errno.EINVAL,
            f"{tape.path}: --rewrite needs each allocation, which a tape of the event set zone does"
            " not have: pagetape record --events page",
        )


def compiled(tape: Tape, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The rules for the engine; the threads and times are those of the tape. Raises TapeError."""
    check(tape)
    begin = tape.clock[0] if tape.clock else 0
    tasks = tape.rows("task") if texts else []
    return [_for_engine(tape, rule, tasks, begin) for rule in rules(texts)]


def folded(frames: pa.Table) -> dict[int, str]:
    """Each stack as one line: its functions, outermost first, joined by semicolons."""
    found: dict[int, list[str]] = {}
    for row in frames.sort_by([("stack", "ascending"), ("depth", "descending")]).to_pylist():
        name = row["function"] or f"0x{row['address'] or 0:x}"
        module = f" [{row['module']}]" if row["module"] else ""
        found.setdefault(row["stack"], []).append(name + module)
    return {stack: ";".join(names) for stack, names in found.items()}


def _moments(tape: Tape, wanted: Sequence[Text]) -> tuple[bytes, bytes]:
    """Time and CPU of the requests with such a stack, in rising order."""
    if "stack" not in tape.tables or not tape.num_rows("stack"):
        raise TapeError(
            errno.EINVAL,
            f"{tape.path}: has no stacks for a condition on them: pagetape record --stacks alloc",
        )
    lines = folded(tape.table("frame"))
    fits = [stack for stack, line in lines.items() if all(one.fits(line) for one in wanted)]
    rows = tape.table("stack").select(["event_ts", "cpu", "stack"])
    chosen = pc.and_(
        pc.is_in(rows["stack"], pa.array(fits, pa.uint32())), pc.is_valid(rows["event_ts"])
    )
    rows = rows.filter(chosen).sort_by([("event_ts", "ascending"), ("cpu", "ascending")])
    return _bytes(rows["event_ts"]), _bytes(rows["cpu"])


def _bytes(column: pa.ChunkedArray) -> bytes:
    """The values of a column of numbers without nulls."""
    width = column.type.bit_width // 8
    return b"".join(
        bytes(one.buffers()[1])[width * one.offset : width * (one.offset + len(one))]
        for one in column.chunks
        if len(one)
    )


def _for_engine(tape: Tape, rule: Rule, tasks: list[dict[str, Any]], begin: int) -> dict[str, Any]:
    pids = None
    if rule.threads:
        pids = sorted(
            {
                task["pid"]
                for task in tasks
                if all(one.fits(str(task[one.column] or "")) for one in rule.threads)
            }
        )
    clear, more = rule.gfp_clear, rule.gfp_set
    if rule.migratetype >= 0:
        more |= _TYPE_FLAGS[MIGRATETYPES[rule.migratetype]]
        clear |= sum(_TYPE_FLAGS.values()) & ~more
    same = ("orders", "migratetypes", "gfp_has", "gfp_lacks", "drop", "order", "times")
    return {
        **{name: getattr(rule, name) for name in (*same, "migratetype")},
        "gfp_clear": clear,
        "gfp_set": more,
        "pids": pids,
        "stacks": _moments(tape, rule.stacks) if rule.stacks else None,
        "since": min(begin + rule.since_ns, NEVER),
        "until": min(begin + rule.until_ns, NEVER),
    }
