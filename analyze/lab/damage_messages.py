# SPDX-License-Identifier: Apache-2.0
"""Damage to kernel messages, as consoles, syslog, mails and two CPUs at once do it.

    damaged([message.lines], Random(1))     # text of a log

No figure is changed: lines are cut, folded, dropped, mixed, quoted, and get prefixes.
"""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable
from itertools import zip_longest
from random import Random

Lines = list[str]


# ---- prefixes


def _dmesg(random: Random, lines: Lines, caller: str = "") -> Lines:
    stamp = random.uniform(5, 90_000)
    return [f"[{stamp + 0.0001 * n:12.6f}]{caller} {line}" for n, line in enumerate(lines)]


def _thread(random: Random, lines: Lines) -> Lines:
    return _dmesg(random, lines, f"[T{random.randrange(1, 9999):5}]")


def _syslog(random: Random, lines: Lines) -> Lines:
    with_stamp = random.random() < 0.5
    lines = _dmesg(random, lines) if with_stamp else lines
    return [f"Apr 12 14:16:{random.randrange(10, 60)} host kernel: {line}" for line in lines]


def _journal(random: Random, lines: Lines) -> Lines:
    return [f"2024-05-03T14:16:{random.randrange(10, 60)}+02:00 host kernel: {x}" for x in lines]


def _kmsg(random: Random, lines: Lines) -> Lines:
    first = random.randrange(1, 9999)
    return [f"4,{first + n},{24122798 + n},-,caller=T{first};{x}" for n, x in enumerate(lines)]


def _level(random: Random, lines: Lines) -> Lines:
    return [f"<4>{line}" for line in _dmesg(random, lines)]


def _wall_clock(random: Random, lines: Lines) -> Lines:
    return [f"[Mon Sep 11 09:46:{random.randrange(10, 60)} 2023] {line}" for line in lines]


def _relative(random: Random, lines: Lines) -> Lines:
    """dmesg -H"""
    first = f"[Apr12 14:{random.randrange(10, 60)}] {lines[0]}"
    return [first, *(f"[  +0.{random.randrange(10**6):06}] {line}" for line in lines[1:])]


def _pod(random: Random, lines: Lines) -> Lines:
    at = f"2024-05-03T14:16:{random.randrange(10, 60)}"
    return [f"{at}.{n:09}Z stdout F {line}" for n, line in enumerate(_dmesg(random, lines))]


def _json(random: Random, lines: Lines) -> Lines:
    if random.random() < 0.5:  # journalctl -o json
        facts = {"PRIORITY": "4", "_TRANSPORT": "kernel"}
        return [json.dumps(facts | {"MESSAGE": line}) for line in lines]
    return ["{", '   "dmesg": [', *(f'{{"pri": 4, "msg": {json.dumps(x)}}},' for x in lines), "]}"]


def _page(random: Random, lines: Lines) -> Lines:
    """Lines of an HTML page."""
    return ["<p>", *(f"{html.escape(line)}<br />" for line in _dmesg(random, lines)), "</p>"]


def _bare(_random: Random, lines: Lines) -> Lines:
    return list(lines)


PREFIXES = [_dmesg, _thread, _syslog, _journal, _kmsg, _level, _wall_clock, _bare]
PREFIXES += [_relative, _pod, _json, _page]


# ---- one log


def _cut_lines(random: Random, lines: Lines) -> Lines:
    width = random.choice([80, 100, 132])
    return [line[:width] for line in lines]


def _cut_one(random: Random, lines: Lines) -> Lines:
    at = random.randrange(len(lines))
    return [*lines[:at], lines[at][: random.randrange(1 + len(lines[at]))], *lines[at + 1 :]]


def _drop(random: Random, lines: Lines) -> Lines:
    share = random.choice([0.02, 0.1, 0.3])
    return [line for line in lines if random.random() > share]


def _drop_run(random: Random, lines: Lines) -> Lines:
    at = random.randrange(len(lines))
    end = at + random.randrange(1, 12)
    mark = [f"** {end - at} printk messages dropped **"] if random.random() < 0.5 else []
    return [*lines[:at], *mark, *lines[end:]]


def _head(random: Random, lines: Lines) -> Lines:
    return lines[: random.randrange(1, len(lines) + 1)]


def _tail(random: Random, lines: Lines) -> Lines:
    return lines[random.randrange(len(lines)) :]


def _fold_soft(random: Random, lines: Lines) -> Lines:
    width = random.choice([60, 72, 76])
    return [
        piece
        for line in lines
        for piece in (textwrap.wrap(line, width, break_on_hyphens=False) or [""])
    ]


def _fold_hard(random: Random, lines: Lines) -> Lines:
    width = random.choice([80, 120, 200])
    return [line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width)]


def _fold_pager(random: Random, lines: Lines) -> Lines:
    """A pager's copy: the last column holds a $, in place of a character."""
    width = random.choice([120, 200])
    out = []
    for line in lines:
        while len(line) > width:
            out.append(line[: width - 1] + "$")
            line = line[width:]
        out.append(line)
    return out


def _quote(random: Random, lines: Lines) -> Lines:
    mark = random.choice(["> ", ">> ", "> > ", "\t", "    "])
    return [mark + line for line in lines]


def _strange_lines(random: Random, lines: Lines) -> Lines:
    strange = [
        "usb 1-1: new high-speed USB device number 4 using xhci_hcd",
        "If I read this right, it allocates memory in order of size.",
        "...",
        "",
        'audit: type=1400 audit(1700000000.123:45): apparmor="DENIED"',
        "free memory is at 12 percent",
    ]
    out = []
    for line in lines:
        out.append(line)
        if random.random() < 0.15:
            out.append(random.choice(strange))
    return out


def _one_line_newlines(_random: Random, lines: Lines) -> Lines:
    """syslog's #012 in the place of the newlines of one message."""
    out: Lines = []
    for line in lines:
        if line.lstrip().startswith(("active_file", "unevictable:", "slab_", "mapped:")) and out:
            out[-1] += "#012" + line
        else:
            out.append(line)
    return out


DAMAGES: list[Callable[[Random, Lines], Lines]] = [
    *(_cut_lines, _cut_one, _drop, _drop_run, _head, _tail, _fold_soft, _fold_hard),
    *(_fold_pager, _quote, _strange_lines),
]


# ---- two CPUs


def _mixed_lines(random: Random, one: Lines, other: Lines) -> Lines:
    """Lines of two CPUs in the order in which a console got them."""
    out, rest = [], [list(one), list(other)]
    while any(rest):
        source = random.choice([r for r in rest if r])
        for _ in range(random.choice([1, 1, 2, 5])):
            if source:
                out.append(source.pop(0))
    return out


def _mixed_words(random: Random, one: Lines, other: Lines) -> Lines:
    """Two CPUs that print pieces of a line in turns, as with pr_cont()."""
    out = []
    for first, second in zip_longest(one, other, fillvalue=""):
        if random.random() < 0.4:
            words = [first.split(" "), second.split(" ")]
            mixed = []
            while any(words):
                source = random.choice([w for w in words if w])
                taken = random.randrange(1, 6)
                mixed += source[:taken]
                del source[:taken]
            out.append(" ".join(mixed))
        else:
            out += [line for line in (first, second) if line]
    return out


def damaged(logs: list[Lines], random: Random) -> str:
    """The text of a log with some reports, damaged in one to three ways."""
    prefix = random.choice(PREFIXES)
    first = [prefix(random, log) for log in logs]
    if len(first) == 2:
        mix = random.choice([_mixed_lines, _mixed_lines, _mixed_words, None])
        lines = mix(random, *first) if mix else first[0] + first[1]
    else:
        lines = [line for log in first for line in log]
    if random.random() < 0.2:
        lines = _one_line_newlines(random, lines)
    for damage in random.sample(DAMAGES, random.choice([0, 1, 1, 2, 3])):
        lines = damage(random, lines) or [""]
    end = random.choice(["\n", "\n", "\r\n"])
    return end.join(lines) + end
