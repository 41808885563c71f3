# SPDX-License-Identifier: Apache-2.0
"""Damage to files that knows nothing of their contents, and to texts.

All choices are those of a random generator, so the same seed makes the same damage. A function
changes its input in place and returns what it did, in words.
"""

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

# Values at the limits of the types that readers compute with.
NUMBERS = (
    *(0, 1, 2, 3, 7, 9, 10, 11, 12, 31, 32, 63, 64, 127, 128, 255, 256),
    *(1023, 1024, 4095, 4096, 4097, 8191, 8192, 65535, 65536, 70000, 200_000, 2_000_000_000),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**52, 2**53, 2**56, 2**62),
    *(2**63 - 1, 2**63, 2**64 - 4096, 2**64 - 2, 2**64 - 1),
    *(-1, -2, -5, -4096, -(2**31), -(2**63)),
)
TEXTS = (
    *("", "x", "-", "\x1b[2J\x1b]0;owned\x07", "a\rb", "\x00", "\x9b31m", "\u202e"),
    *("<script>alert(1)</script>", "'; DROP TABLE event; --", "../../x", "/etc/passwd"),
    *("nan", "-1", "é" * 300, "%s%n"),
    *("kthreadd", "swapper/0", "kworker/0:1", "=1+1", "y" * 100_000),
)
JSON_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 4, 2**31, 2**63, 2**64, 10**30, 1.5, -0.0, 1e308, float("nan")),
    *("", "x", "\x1b[2J", "6.1.0", "2.6.31", [], [None], [0] * 70_000, [[]], {}, {"x": 1}),
    *([-1], [2**64], [{"id": 0}], [{"id": -1}], {"value": 2**64}),
)

NO_FACTS = (b"", b"{", b"{}", b"[]", b"null", b'"x"', b"\xff", b"[" * 100_000, b"1" * 5000)
NO_CHECKPOINT = (*NO_FACTS, b'{"rows": 1}', b'{"rows": []}', b'{"rows": {"event": null}}')
RING_NAMES = (
    *("cpu-5", "cpu70000", "cpu", "cpu1x", "cpu01", "cpu8191", "cpu4294967296"),
    "cpu9999999999999999999",
)


# Bytes of one file.


def wrapped(number: int, size: int) -> bytes:
    return (number % (1 << 8 * size)).to_bytes(size, "little")


def flip(data: bytearray, random: Random) -> str:
    for _ in range(nr := random.choice((1, 1, 1, 8, 64))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return f"flip {nr}"


def truncate(data: bytearray, random: Random) -> str:
    del data[(at := random.randrange(len(data))) :]
    return f"truncate {at}"


def blank(data: bytearray, random: Random) -> str:
    at = random.randrange(len(data))
    end = min(at + random.choice((8, 64, 512, 4096)), len(data))
    data[at:end] = random.choice((b"\0", b"\xff")) * (end - at)
    return f"blank {at}-{end}"


def repeat(data: bytearray, random: Random) -> str:
    at, end = sorted(random.randrange(len(data)) for _ in range(2))
    data[at:at] = data[at:end]
    return f"repeat {at}-{end}"


def remove(data: bytearray, random: Random) -> str:
    at = random.randrange(len(data))
    del data[at : at + random.choice((1, 8, 64, 4096))]
    return f"remove {at}"


def set_word(data: bytearray, random: Random) -> str:
    size = random.choice((2, 4, 4, 8, 8))
    last = max(len(data) // size - 1, 0)
    # Headers and footers, which have the lengths and offsets, are at both ends.
    near = random.randint(0, min(512, last))
    at = random.choice((random.randint(0, last), near, last - near))
    number = random.choice(NUMBERS)
    data[at * size : at * size + size] = wrapped(number, size)
    return f"word {at * size} = {number} ({size} bytes)"


def add_to_word(data: bytearray, random: Random) -> str:
    size = random.choice((4, 8))
    at = random.randrange(max(len(data) // size, 1)) * size
    word = int.from_bytes(data[at : at + size], "little")
    by = random.choice((-8, -1, 1, 8, 4096))
    data[at : at + size] = wrapped(word + by, size)
    return f"word {at} {by:+d}"


BYTES = (flip, truncate, blank, repeat, remove, set_word, set_word, set_word, add_to_word)


def damage_bytes(path: Path, random: Random) -> str:
    data = bytearray(path.read_bytes())
    if not data:
        data += b"\0"
    done = random.choice(BYTES)(data, random)
    path.write_bytes(data)
    return f"{done} of {path.name}"


# A file that is not what it seems.


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _huge_behind(head: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(head)
        os.truncate(path, 1 << 40)

    return make


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as s:
        here = os.open(path.parent, os.O_RDONLY)
        s.bind(f"/proc/self/fd/{here}/{path.name}")  # the path itself may be too long
        os.close(here)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "fifo": _fifo,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "link to /dev/null": lambda path: path.symlink_to("/dev/null"),
    "link to /proc/self/mem": lambda path: path.symlink_to("/proc/self/mem"),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "directory": lambda path: path.mkdir(),
    "socket": _socket,
    "empty": lambda path: path.touch(),
    "absent": lambda _path: None,
    "sparse 1 TiB": _huge,
}


def special_file(path: Path, random: Random) -> str:
    what, make = random.choice(list(SPECIAL.items()))
    if what == "sparse 1 TiB" and random.random() < 0.5 and path.is_file():
        make = _huge_behind(path.read_bytes())
    path.unlink()
    make(path)
    return f"{what} in place of {path.name}"


# Texts.


def damage_text(text: str, random: Random) -> tuple[str, str]:
    """Digits, lines and words of a text."""
    lines = text.splitlines(keepends=True) or ["\n"]
    at = random.randrange(len(lines))
    how = random.choice(
        (
            *("digits", "digits", "digits", "remove", "twice", "swap", "long", "cut", "control"),
            *("field", "fold", "layout"),
        )
    )
    if how == "digits":
        places = list(re.finditer(r"\d+", text))
        if places:
            (place,) = random.sample(places, 1)
            text = text[: place.start()] + str(random.choice(NUMBERS)) + text[place.end() :]
            at = text.count("\n", 0, place.start())
        return text, f"digits in line {at + 1}"
    if how == "remove":
        del lines[at : at + random.choice((1, 5))]
    elif how == "twice":
        lines[at:at] = lines[max(at - random.choice((0, 20)), 0) : at + 1]
    elif how == "swap":
        other = random.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif how == "long":
        lines[at] = lines[at].rstrip("\n") * random.choice((20, 3000)) + "\n"
    elif how == "cut":
        lines = [*lines[:at], lines[at][: random.randrange(len(lines[at]) + 1)]]
    elif how == "fold":  # as a mail program does it
        width = random.randint(20, 120)
        lines = [re.sub(rf"(.{{{width}}}\S*) ", r"\1\n", line) for line in lines]
    elif how == "layout":
        old, new = random.choice((("\n", "\r\n"), ("\n", "\n> "), ("\n ", "\n"), ("  ", " ")))
        return text.replace(old, new), f"{new!r} for {old!r}"
    elif how == "control":
        lines[at] = lines[at].rstrip("\n") + random.choice(TEXTS)[:2000] + "\n"
    else:
        words = re.split(r"(\s+)", lines[at])
        words[random.randrange(len(words))] = random.choice((*map(str, NUMBERS), *TEXTS))[:2000]
        lines[at] = "".join(words)
    return "".join(lines), f"{how} line {at + 1}"


def damage_text_file(path: Path, random: Random) -> str:
    text = path.read_text("utf-8", "replace")
    text, done = damage_text(text, random)
    path.write_text(text, "utf-8", "surrogateescape")
    return f"{done} of {path.name}"
