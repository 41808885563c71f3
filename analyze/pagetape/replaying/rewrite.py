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
    time >= 5s        also <, <=, >

A rule without a condition is of every request. The first rule that fits a request counts. The
engine has the rest: replay/freerun/rewrite.h.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pagetape import did_you_mean
from pagetape.schemas import GFP_BITS, MIGRATETYPES
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import zone_events

_ALL = (1 << 32) - 1
_NEVER = (1 << 64) - 1
_MOST_ORDERS = 32  # bits of a rule
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}

# The flag by which the kernel finds the migratetype of a request (gfp_migratetype).
_TYPE_FLAGS = {
    "UNMOVABLE": 0,
    "MOVABLE": 1 << GFP_BITS.index("MOVABLE"),
    "RECLAIMABLE": 1 << GFP_BITS.index("RECLAIMABLE"),
}

_TOKEN = re.compile(
    r'\s*("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|!=|<=|>=|[=<>~|,:]|[\w./@+-]+)', re.ASCII
)
_EXAMPLE = """'task ~ "db" and order = 3 : order = 0 x 8'"""


class RuleError(ValueError):
    """A rule that cannot be read; the message has the place and what was expected."""


@dataclass(frozen=True)
class _Thread:
    """A condition on the thread, which depends on the tape."""

    column: str  # of the table task: comm, cgroup or pid
    fits: Callable[[str], bool]


@dataclass
class Rule:
    """One rule: the engine's fields (struct rewrite_rule), and the conditions on threads."""

    text: str
    orders: int = _ALL
    migratetypes: int = _ALL
    gfp_has: int = 0
    gfp_lacks: int = 0
    since_ns: int = 0  # after the first event
    until_ns: int = _NEVER
    threads: tuple[_Thread, ...] = ()
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


class _Tokens:
    """The words of a rule."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._found: list[str] = []
        at = 0
        while text[at:].strip():
            token = _TOKEN.match(text, at)
            if token is None:
                raise RuleError(f"'{text[at:].strip()[:20]}' is no word of a rule")
            self._found.append(token[1])
            at = token.end()

    @property
    def next(self) -> str:
        return self._found[0] if self._found else ""

    def take(self, *wanted: str, what: str = "") -> str:
        """The next word; RuleError unless it is one of `wanted`, if there are any."""
        if not self._found or (wanted and self._found[0] not in wanted):
            expected = what or " or ".join(f"'{word}'" for word in wanted)
            found = f"'{self.next}'" if self._found else "the end"
            raise RuleError(f"expected {expected}, found {found}")
        return self._found.pop(0)

    def number(self, end: int, what: str) -> int:
        word = self.take(what=what)
        if not word.isdecimal() or int(word) >= end:
            raise RuleError(f"expected {what} below {end}, found '{word}'")
        return int(word)

    def string(self) -> str:
        word = self.take(what="a text in quotes")
        return re.sub(r"\\(.)", r"\1", word[1:-1]) if word[0] in "\"'" else word


def _one_of(word: str, known: Sequence[str], what: str) -> int:
    name = word.upper().removeprefix("__GFP_")
    if name not in known:
        raise RuleError(f"'{word}' is no {what}{did_you_mean.hint(name, known)}")
    return known.index(name)


def _flags(tokens: _Tokens) -> int:
    """The bits of FLAG|FLAG."""
    bits = 1 << _one_of(tokens.take(what="a gfp flag"), GFP_BITS, "gfp flag")
    while tokens.next == "|":
        tokens.take("|")
        bits |= 1 << _one_of(tokens.take(what="a gfp flag"), GFP_BITS, "gfp flag")
    return bits


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": int.__eq__,
    "!=": int.__ne__,
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
}


def _time(tokens: _Tokens) -> int:
    word = tokens.take(what="a time such as 5s")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", word)
    if not found or found[2] not in {*_UNITS, ""}:
        raise RuleError(f"expected a time such as 5s or 200ms, found '{word}'")
    return round(float(found[1]) * _UNITS[found[2] or "s"])


def _thread(name: str, tokens: _Tokens) -> _Thread:
    column = {"task": "comm"}.get(name, name)
    how = tokens.take("=", *(["~"] if name != "pid" else []))
    text = tokens.string()
    if how == "=":
        return _Thread(column, text.__eq__)
    try:
        pattern = re.compile(text)
    except re.error as e:
        raise RuleError(f"'{text}' is no regular expression: {e}") from None
    return _Thread(column, lambda value: pattern.search(value) is not None)


def _condition(rule: Rule, tokens: _Tokens) -> None:
    name = tokens.take(
        *("task", "cgroup", "pid", "order", "migratetype", "gfp", "time"), what="a condition"
    )
    if name in ("task", "cgroup", "pid"):
        rule.threads += (_thread(name, tokens),)
    elif name == "order":
        compare = _COMPARE[tokens.take(*_COMPARE)]
        than = tokens.number(_MOST_ORDERS, "an order")
        rule.orders &= sum(1 << n for n in range(_MOST_ORDERS) if compare(n, than))
    elif name == "migratetype":
        how = tokens.take("=", "!=")
        bit = 1 << _one_of(tokens.take(what="a migratetype"), MIGRATETYPES, "migratetype")
        rule.migratetypes &= bit if how == "=" else ~bit & _ALL
    elif name == "gfp":
        if tokens.take("has", "lacks") == "has":
            rule.gfp_has |= _flags(tokens)
        else:
            rule.gfp_lacks |= _flags(tokens)
    else:
        how = tokens.take("<", "<=", ">", ">=")
        at = _time(tokens) + (how in ("<=", ">"))
        if how[0] == ">":
            rule.since_ns = max(rule.since_ns, at)
        else:
            rule.until_ns = min(rule.until_ns, at)


def _change(rule: Rule, tokens: _Tokens) -> None:
    what = tokens.take("order", "migratetype", "drop", "add")
    if what == "order":
        tokens.take("=")
        rule.order = tokens.number(_MOST_ORDERS, "an order")
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
        rule.gfp_set |= _flags(tokens)
    elif tokens.next in ("", ","):
        rule.drop = True
    else:
        rule.gfp_clear |= _flags(tokens)


def parse(text: str) -> Rule:
    """The rule in `text`; raises RuleError."""
    rule, tokens = Rule(text), _Tokens(text)
    while tokens.next != ":":
        _condition(rule, tokens)
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
    rule.orders &= _ALL << rule.order & _ALL
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
    return [_for_engine(rule, tasks, begin) for rule in rules(texts)]


def _for_engine(rule: Rule, tasks: list[dict[str, Any]], begin: int) -> dict[str, Any]:
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
        "since": min(begin + rule.since_ns, _NEVER),
        "until": min(begin + rule.until_ns, _NEVER),
    }
