# SPDX-License-Identifier: Apache-2.0
"""Conditions on requests, in the one language of `replay --rewrite` and `record --stacks`.

CONDITION and CONDITION ...

task = "NAME"     task ~ "REGEX"
cgroup = "PATH"   cgroup ~ "REGEX"
stack ~ "REGEX"   (the functions of the kernel stack, outermost first, joined by ;)
pid = N
order = N         also !=, <, <=, >, >=
migratetype = NAME  also !=
gfp has FLAG|FLAG gfp lacks FLAG|FLAG
time >= 5s        also <, <=, >
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pagetape import did_you_mean
from pagetape.schemas import GFP_BITS, MIGRATETYPES

ALL = (1 << 32) - 1
NEVER = (1 << 64) - 1
MOST_ORDERS = 32  # bits of a condition
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}

_TOKEN = re.compile(
    r'\s*("(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|!=|<=|>=|[=<>~|,:]|[\w./@+-]+)', re.ASCII
)


class RuleError(ValueError):
    """A rule that cannot be read; the message has the place and what was expected."""


@dataclass(frozen=True)
class Text:
    """A condition on a text: of the thread (comm, cgroup, pid), or of its stack."""

    name: str  # as in the rule
    how: str  # = or ~
    text: str
    fits: Callable[[str], bool]

    @property
    def column(self) -> str:
        return {"task": "comm"}.get(self.name, self.name)


@dataclass
class Condition:
    """Which requests: all of these hold."""

    orders: int = ALL  # bit n: those of order n
    migratetypes: int = ALL
    gfp_has: int = 0
    gfp_lacks: int = 0
    since_ns: int = 0  # after the first event
    until_ns: int = NEVER
    threads: tuple[Text, ...] = ()
    stacks: tuple[Text, ...] = ()


class Tokens:
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


def one_of(word: str, known: Sequence[str], what: str) -> int:
    name = word.upper().removeprefix("__GFP_")
    if name not in known:
        raise RuleError(f"'{word}' is no {what}{did_you_mean.hint(name, known)}")
    return known.index(name)


def flags(tokens: Tokens) -> int:
    """The bits of FLAG|FLAG."""
    bits = 1 << one_of(tokens.take(what="a gfp flag"), GFP_BITS, "gfp flag")
    while tokens.next == "|":
        tokens.take("|")
        bits |= 1 << one_of(tokens.take(what="a gfp flag"), GFP_BITS, "gfp flag")
    return bits


_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": int.__eq__,
    "!=": int.__ne__,
    "<": int.__lt__,
    "<=": int.__le__,
    ">": int.__gt__,
    ">=": int.__ge__,
}


def _time(tokens: Tokens) -> int:
    word = tokens.take(what="a time such as 5s")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", word)
    if not found or found[2] not in {*_UNITS, ""}:
        raise RuleError(f"expected a time such as 5s or 200ms, found '{word}'")
    return round(float(found[1]) * _UNITS[found[2] or "s"])


def _text(name: str, tokens: Tokens) -> Text:
    how = tokens.take(*{"pid": "=", "stack": "~"}.get(name, "=~"))
    text = tokens.string()
    if how == "=":
        return Text(name, how, text, text.__eq__)
    try:
        pattern = re.compile(text)
    except re.error as e:
        raise RuleError(f"'{text}' is no regular expression: {e}") from None
    return Text(name, how, text, lambda value: pattern.search(value) is not None)


def add(found: Condition, tokens: Tokens) -> None:
    """Read one condition."""
    names = ("task", "cgroup", "pid", "stack", "order", "migratetype", "gfp", "time")
    name = tokens.take(*names, what="a condition")
    if name == "stack":
        found.stacks += (_text(name, tokens),)
    elif name in ("task", "cgroup", "pid"):
        found.threads += (_text(name, tokens),)
    elif name == "order":
        compare = _COMPARE[tokens.take(*_COMPARE)]
        than = tokens.number(MOST_ORDERS, "an order")
        found.orders &= sum(1 << n for n in range(MOST_ORDERS) if compare(n, than))
    elif name == "migratetype":
        how = tokens.take("=", "!=")
        bit = 1 << one_of(tokens.take(what="a migratetype"), MIGRATETYPES, "migratetype")
        found.migratetypes &= bit if how == "=" else ~bit & ALL
    elif name == "gfp":
        if tokens.take("has", "lacks") == "has":
            found.gfp_has |= flags(tokens)
        else:
            found.gfp_lacks |= flags(tokens)
    else:
        how = tokens.take("<", "<=", ">", ">=")
        at = _time(tokens) + (how in ("<=", ">"))
        if how[0] == ">":
            found.since_ns = max(found.since_ns, at)
        else:
            found.until_ns = min(found.until_ns, at)


def parse(text: str) -> Condition:
    """The condition in `text`; raises RuleError."""
    found, tokens = Condition(), Tokens(text)
    add(found, tokens)
    while tokens.next:
        tokens.take("and")
        add(found, tokens)
    return found


_ANCHORED = re.compile(r"(\^?)([\w./:@ -]*)(\$?)", re.ASCII)


def _glob(one: Text) -> str:
    """A regular expression as ftrace's filters have it; RuleError for one that they lack."""
    parts = _ANCHORED.fullmatch(one.text)
    if parts is None:
        raise RuleError(
            f"the kernel compares {one.name} with plain text, ^ and $, not '{one.text}'"
        )
    return ("" if parts[1] else "*") + parts[2] + ("" if parts[3] else "*")


def _ranges(orders: int) -> str:
    """The bits of `orders` as a condition of ftrace."""
    found, first = [], None
    for order in range(MOST_ORDERS + 1):
        if order < MOST_ORDERS and orders >> order & 1:
            first = order if first is None else first
        elif first is not None:
            least = [f"order >= {first}"] if first else []
            most = [f"order <= {order - 1}"] if order < MOST_ORDERS else []
            found.append(" && ".join(least + most))
            first = None
    return " || ".join(f"({one})" if len(found) > 1 else one for one in found)


def _orders(found: Condition) -> Iterator[str]:
    if not found.orders:
        raise RuleError("no order meets the conditions")
    if found.orders != ALL:
        yield _ranges(found.orders)


def _migratetypes(found: Condition) -> Iterator[str]:
    requested = [n for n in range(3) if found.migratetypes >> n & 1]  # of any kernel with a filter
    if not requested:
        raise RuleError(f"a request has the migratetype {', '.join(MIGRATETYPES[:3])}")
    if len(requested) < 3:
        yield " || ".join(f"migratetype == {n}" for n in requested)


def _flags(flags: int, gfp_bits: Mapping[str, int]) -> Iterator[str]:
    """The tests of each of these flags."""
    for name in (name for bit, name in enumerate(GFP_BITS) if flags >> bit & 1):
        if name not in gfp_bits:
            raise RuleError(f"this kernel has no gfp flag {name}")
        yield f"gfp_flags & {1 << gfp_bits[name]:#x}"


def _thread(one: Text) -> str:
    if one.name == "cgroup":
        raise RuleError("the kernel cannot choose stacks by cgroup")
    if one.name == "pid":
        if not one.text.isdecimal():
            raise RuleError(f"expected a pid, found '{one.text}'")
        return f"common_pid == {one.text}"
    if '"' in one.text:
        raise RuleError('a name with " cannot be compared')
    return f'comm == "{one.text}"' if one.how == "=" else f'comm ~ "{_glob(one)}"'


def ftrace(found: Condition, gfp_bits: Mapping[str, int]) -> str:
    """The condition as the kernel's filter of kmem:mm_page_alloc; "" for every request.

    `gfp_bits` are the kernel's bits by name. RuleError: no filter can say this.
    """
    if found.stacks or found.since_ns or found.until_ns != NEVER:
        raise RuleError("the kernel cannot choose stacks by stack or time")
    parts = [
        *_orders(found),
        *_migratetypes(found),
        *_flags(found.gfp_has, gfp_bits),
        *(f"!({test})" for test in _flags(found.gfp_lacks, gfp_bits)),
        *map(_thread, found.threads),
    ]
    return " && ".join(f"({part})" if len(parts) > 1 else part for part in parts)
