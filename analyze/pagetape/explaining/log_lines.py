# SPDX-License-Identifier: Apache-2.0
"""Lines of a kernel log, as people have them: with prefixes, quoted, folded.

Reads what dmesg, /dev/kmsg, journalctl, syslog, logcat and serial consoles write, also out of a
mail or a terminal. A line loses its prefix; the pieces of a folded line become one line again.
Where a fold lost a character, the line has GAP there, so that no figure is read across it.
"""

from __future__ import annotations

import codecs
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import BinaryIO

LONGEST = 1 << 16  # bytes of a line; the rest of a longer one is dropped
GAP = "\x01"

_LONGEST_PREFIX = 240  # characters
_LOOK_AHEAD = 20_000  # lines that show the width of a terminal, and the encoding of a mail

# What stands for a plain character where somebody wrote the text down.
_PLAIN = str.maketrans({"\u00d7": "x", "\uff0c": ",", "\u00a0": " ", "\0": " ", GAP: " "})
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_ENTITY = re.compile(r"&(?:lt|gt|amp|nbsp|quot|#\d{2,4});")
_TAG = re.compile(r"</?(?:p|br|pre|div|code|span|samp|tt|li|t[rd])(?: [^<>]{0,80})? ?/?>")
_QUOTED = re.compile(rb"=([0-9A-F]{2})")
# A message in JSON, as journalctl, dmesg and others write it.
_JSON = re.compile(
    r'"(?:MESSAGE|message|msg|log|short_message|textPayload)" *: *("(?:[^"\\]|\\.)*")'
)

_ZONES = r"(?:DMA32|DMA|Normal|HighMem|Movable|Device)"
_DAY = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"

# A prefix of each kind, and whether a line with it is the first piece of a message.
_PREFIXES = [
    (re.compile(r"\d{1,3},\d+,\d+,[^;\s]{0,60};"), True),  # /dev/kmsg
    (re.compile(r"<\d{1,3}>"), True),
    (
        re.compile(
            rf"(?:[A-Z][a-z]{{2}} )?[A-Z][a-z]{{2}} +\d{{1,2}} {_DAY}(?: \d{{4}})? (?:\S+ ){{0,3}}?"
            r"kernel(?:\[\d+\])?: ?"
        ),
        True,
    ),
    (re.compile(rf"\d{{4}}-\d\d-\d\d[T ]{_DAY}\S* (?:\S+ )?kernel(?:\[\d+\])?: ?"), True),
    (re.compile(rf"\d\d-\d\d {_DAY} +(?:\d+ +\d+ +[A-Z] +)?(?:kernel *: ?)?"), True),  # logcat
    (re.compile(rf"\d{{4}}-\d\d-\d\dT{_DAY}(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?"), True),
    (re.compile(r"\[ *\d+\.\d+(?: s)?(?:[ @]\w+)?(?: +< *\d+\.\d+>)?\] ?"), True),
    (
        re.compile(r"\[(?:[A-Z][a-z]{2} ?\d+ \d\d:\d\d| *[+<] *\d+\.\d+>?)\] ?"),
        True,
    ),  # dmesg -H, -d
    (re.compile(rf"\[[A-Z][a-z]{{2}} [A-Z][a-z]{{2}} +\d+ {_DAY} \d{{4}}\] ?"), True),
    (re.compile(rf"\[\d[\d-]*[ T]{_DAY}[^\]]{{0,8}}\] ?"), True),
    (re.compile(rf"\[{_DAY}\] ?"), True),
    (re.compile(r"\[ *[TC]\d+\] ?"), True),
    (re.compile(r"\[ *\d+: *[^\]:]{1,20}: *\d+\] ?"), True),
    (re.compile(r"\[pid:[^\]]{0,60}\][\w/:.-]{0,20}: ?"), True),
    (re.compile(r"(?:\S+ )?kernel: "), True),
    (re.compile(r"kern *:[a-z]+ *: ?"), True),  # dmesg -x
    (re.compile(r"\d{1,4}\. {0,2}(?=<|\[)"), True),  # the lines of a page with numbers
    (
        re.compile(r"(?:/?[\w.-]+[/.])*(?:log|messages|syslog)(?:\.\d+)?[:-](?:\d+[:-])?"),
        True,
    ),  # grep
    (re.compile(r"\d{1,9}:(?=\[ *\d)"), True),  # grep -n
    (re.compile(r"(?:[|>] ?)+"), False),
]
# What a message of a memory state begins with, behind a prefix of any kind, and the end of one.
_ANCHOR = re.compile(
    rf"(?:Node \d+ )?{_ZONES}(?: free:\d+kB min|: \d+\*\d)|lowmem_reserve\[\]: \d|Mem-[Ii]nfo:"
    r"|\d+ total pagecache pages"
)
_RESERVE_END = re.compile(r"lowmem_reserve\[\]:(?: \d+)+((?:\\n|[^\w\s]){1,4})\s*$")
_STAMP_INSIDE = re.compile(r"(?<=\S)\s*(?=\[ *\d+\.\d{6}\](?:\[ *[TC]\d+\])? ?)")
_CALLER = re.compile(r"caller=([TC]\d+)|^\[ *([TC]\d+)\]")
_NEWLINES = re.compile(r"#012|\\x0a|\\n(?= |$)")

# A message that begins without a prefix.
_BEGINS = re.compile(
    rf"(?:Node \d+,? )?{_ZONES}(?: free:| per-cpu:|: ?\d+\*)|Node \d+ (?:active_anon|hugepages)"
    r"|lowmem_reserve|protections\[|Mem-[Ii]nfo|Call [Tt]race|\S.* invoked oom-killer"
    r"|\S.*: page allocation |SLUB: |oom-kill:|Out of memory|Memory cgroup|Tasks state"
    r"|\d+ (?:total pagecache )?pages\b|Free swap|Total swap|Swap cache|CPU: \d|Pid: \d"
    r"|\S.* callbacks suppressed|\*\* \d+ printk messages dropped|[0-9]+ pages? "
)
_NODE_AT_END = re.compile(r"(?:^|\s)Node \d+,?\s*$")

# Messages that the console got in fragments, and the fragments that go on with them.
_FRAGMENTS = [
    (re.compile(r"lowmem_reserve\[\]:(?: *\d+)* *$"), re.compile(r" *\d+(?: \d+)* *$")),
    (
        re.compile(rf"{_ZONES}:(?: *\d+\*\d+kB(?: *\([A-Z]+\))?)* *$"),
        re.compile(r" *(?:\d+\*\d+kB|\([A-Z]+\)|= *\d+kB)"),
    ),
    (re.compile(r"^Node \d+,? *$"), re.compile(rf" *{_ZONES}(?: free:|:)")),
]

# Pairs of an end and a beginning that are one word: a figure is cut in two by a fold.
_CUT_WORDS = [
    (re.compile(r"[\w)]:\d*k?$"), re.compile(r"\d*[kK]?B\b")),
    (re.compile(r"\d\*\d*k?$"), re.compile(r"\d*k?B\b")),
    (re.compile(r"\([A-Z]+$"), re.compile(r"[A-Z]*\)")),
    (re.compile(r"\($"), re.compile(r"[A-Z]+\)")),
]
_NAME_AT_END = re.compile(r"([A-Za-z_()]+)$")
_NAME_AT_BEGIN = re.compile(r"([A-Za-z_()0-9]*)(?=[: ]|$)")
_NAMES = re.compile(
    r"free|boost|min|low|high|reserved_highatomic|free_highatomic|(?:in)?active_(?:anon|file)"
    r"|unevictable|writepending|zspages|present|managed|mlocked|bounce|free_pcp|local_pcp|free_cma"
    r"|kernel_stack|pagetables|lowmem_reserve|DMA(?:32)?|Normal|HighMem|Movable|Node|invoked"
    r"|oom-killer|failure|allocation"
)


@dataclass(slots=True)
class Line:
    """One message: its text without prefix, and the CPU or thread that printed it, if known."""

    text: str
    caller: str
    number: int  # of its first piece, from 1


@dataclass(slots=True)
class _Piece:
    text: str
    caller: str
    number: int
    begins: bool  # a prefix or a known beginning shows that it is no rest of a fold
    width: int


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    data = file.readline(LONGEST)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from _of_utf16(data, file)
        return
    while data:
        yield data
        while not data.endswith(b"\n") and len(data) == LONGEST:
            data = file.readline(LONGEST)
        data = file.readline(LONGEST)


def _of_utf16(data: bytes, file: BinaryIO) -> Iterator[bytes]:
    """The lines of a text in UTF-16, as PowerShell writes it."""
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    text = ""
    while data:
        text += decoder.decode(data)
        *whole, text = text.split("\n")
        yield from (f"{line}\n".encode("utf-8", "replace") for line in whole)
        text = text[:LONGEST]
        data = file.readline(LONGEST)
    yield text.encode("utf-8", "replace")


def _decoded(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Lines of a mail in quoted-printable as it was before: = at the end of a line folds it."""
    ahead = list(islice(lines, _LOOK_AHEAD))
    ends = sum(line.rstrip(b"\r\n").endswith(b"=") for line in ahead)
    if not ends or not any(b"=3D" in line for line in ahead):
        yield from chain(ahead, lines)
        return
    whole = b""
    for line in chain(ahead, lines):
        bare = line.rstrip(b"\r\n")
        whole += _QUOTED.sub(lambda one: bytes([int(one[1], 16)]), bare.removesuffix(b"="))
        if not bare.endswith(b"=") or len(whole) > LONGEST:
            yield whole
            whole = b""
    yield whole


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "replace").rstrip("\r\n")
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if "<" in text:
        text = _TAG.sub("", text)
    if "&" in text and _ENTITY.search(text):
        text = html.unescape(text)
    return text.translate(_PLAIN)


def _stripped(text: str) -> tuple[str, str, bool]:
    """A line without its prefixes, its caller, and whether a prefix shows that a message begins."""
    caller, begins = "", False
    while True:
        text = text.lstrip(" \t") if begins else text.lstrip("\t")
        bare = text.lstrip(" ")
        for pattern, first in _PREFIXES:
            if found := pattern.match(bare):
                if by := _CALLER.search(found[0]):
                    caller = by[1] or by[2]
                begins |= first
                text = bare[found.end() :]
                break
        else:
            return text, caller, begins


def _frame(lines: Iterable[bytes]) -> re.Pattern[str] | None:
    """The prefix that most messages have, where it is of no known kind, and what ends them."""
    prefixes: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for text in map(_text, lines):
        if (found := _ANCHOR.search(text, 0, _LONGEST_PREFIX)) and _messages(text) == [text]:
            rest, *_ = _stripped(text[: found.start()])
            parts = re.findall(r"\d+|\s+|[^\d\s]+", text[: found.start()])
            shape = "".join(
                r"\d+" if one[0].isdigit() else r"\s*" if one.isspace() else re.escape(one)
                for one in parts
            )
            prefixes[shape if rest.strip() else ""] += 1
            ends.update(_RESERVE_END.findall(text))
    shape, often = prefixes.most_common(1)[0] if prefixes else ("", 0)
    end, ended = ends.most_common(1)[0] if ends else ("", 0)
    if often < 3 or not (shape or ended > 1):
        return None
    return re.compile(rf"{shape}(.*?)(?:{re.escape(end)}\s*)?$" if ended > 1 else rf"{shape}(.*)$")


def _messages(text: str) -> list[str]:
    """The messages in a line of JSON; the line itself if it is none."""
    found = _JSON.findall(text) if '"' in text else []
    try:
        return [str(json.loads(one, strict=False)) for one in found] or [text]
    except ValueError:  # another escape than JSON's
        return [text]


def _pieces(lines: Iterable[bytes], frame: re.Pattern[str] | None) -> Iterator[_Piece]:
    caller = ""
    for number, data in enumerate(lines, 1):
        raw = _text(data)
        framed = frame.match(raw) if frame else None
        whole = [framed[1]] if framed else _messages(raw)
        of_json = whole != [raw]
        parts = (_STAMP_INSIDE.split(one) if one.count("[") > 1 else (one,) for one in whole)
        for part in chain.from_iterable(parts):
            text, by, begins = _stripped(part)
            begins |= of_json
            caller = by if begins else caller  # the rest of a fold is of the same caller
            if not text.strip():
                begins = True
            begins |= _BEGINS.match(text.lstrip()) is not None
            first, *more = _NEWLINES.split(text)
            yield _Piece(first, caller, number, begins, len(raw))
            for rest in more:
                yield _Piece(rest, caller, number, True, 0)


def _fold_width(pieces: list[_Piece]) -> int:
    """The width of the terminal that folded the lines, where most folds show the same one."""
    widths = Counter(
        one.width
        for one, after in pairwise(pieces)
        if not after.begins and one.text.strip() and one.width >= 40
    )
    if not widths:
        return 0
    width, nr = widths.most_common(1)[0]
    return width if nr >= 2 and nr >= 0.6 * widths.total() else 0


def _joined(text: str, rest: str, folded_hard: bool) -> str:
    """A line and the next piece of it."""
    if text.endswith("$"):  # a pager's mark, in place of a character
        return f"{text[:-1]}{GAP}{rest.lstrip()}"
    if folded_hard:
        return text + rest
    end, begin = text.rstrip(" \\"), rest.lstrip()
    if text.endswith(" ") or not end:
        return f"{end} {begin}"
    for tail, head in _CUT_WORDS:
        if tail.search(end) and head.match(begin) and not end.endswith("kB"):
            return end + begin
    first, rest_of_it = _NAME_AT_END.search(end), _NAME_AT_BEGIN.match(begin)
    word = first[1] + rest_of_it[1] if first and rest_of_it else ""
    if first and _NAMES.fullmatch(word) and not _NAMES.fullmatch(first[1]):
        return end + begin
    return f"{end} {begin}"


def _is_fragment(text: str, rest: str) -> bool:
    """Whether a message goes on with a line that has a prefix of its own."""
    return any(end.search(text) and begin.match(rest) for end, begin in _FRAGMENTS)


def lines(file: BinaryIO) -> Iterator[Line]:
    """The messages of a log, in its order. Reads on while they are taken."""
    read = _decoded(_chunks(file))
    first = list(islice(read, _LOOK_AHEAD))
    found = _pieces(chain(first, read), _frame(first))
    ahead = list(islice(found, _LOOK_AHEAD))
    width = _fold_width(ahead)
    last: _Piece | None = None
    text = ""
    before = 0  # width of the piece before
    for piece in chain(ahead, found):
        goes_on = last is not None and bool(text.strip()) and len(text) < LONGEST
        if goes_on and last and piece.caller == last.caller and _is_fragment(text, piece.text):
            text = f"{text.rstrip()} {piece.text.strip()}"
            before = 0
            continue
        if goes_on and (not piece.begins or (_NODE_AT_END.search(text) and piece.width)):
            text = _joined(text, piece.text, before == width != 0)
        else:
            if last is not None and text.strip():
                yield Line(" ".join(text.split()), last.caller, last.number)
            last, text = piece, piece.text
        before = piece.width
    if last is not None and text.strip():
        yield Line(" ".join(text.split()), last.caller, last.number)
