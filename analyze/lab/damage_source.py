# SPDX-License-Identifier: Apache-2.0
"""Damage to spools, trace.dat files and copies of /proc files."""

import json
import shutil
import struct
from pathlib import Path
from random import Random

import pyarrow as pa
from damage import (
    BYTES,
    JSON_VALUES,
    NO_CHECKPOINT,
    NUMBERS,
    RING_NAMES,
    damage_bytes,
    damage_text_file,
    flip,
    special_file,
    wrapped,
)
from damage_tape import damage_tape


def damage_spool(tape: Path, random: Random, home: Path) -> str:
    """The spool of an unfinished tape, sometimes its tables."""
    spool = tape / "spool"
    rings = sorted(path for path in spool.glob("cpu*") if path.suffix != ".more")
    share = random.random()
    ring = random.choice(rings)
    if share < 0.12:
        name = random.choice(RING_NAMES)
        ring.rename(spool / name)
        return f"{ring.name} as {name}"
    if share < 0.30:  # the header
        data = bytearray(ring.read_bytes())
        at = random.randrange(0, 256, 4)
        size = random.choice((4, 8, 8))
        number = random.choice(NUMBERS)
        data[at : at + size] = wrapped(number, size)
        ring.write_bytes(data)
        return f"header word {at} = {number} of {ring.name}"
    if share < 0.40:  # a ring page
        data = bytearray(ring.read_bytes())
        at = 4096 * random.randrange(1, max(len(data) // 4096, 2)) + random.randrange(0, 64, 4)
        number = random.choice(NUMBERS)
        data[at : at + 8] = wrapped(number, 8)
        ring.write_bytes(data)
        return f"page word {at} = {number} of {ring.name}"
    if share < 0.55:
        return _damage_checkpoint(spool, random)
    if share < 0.72:
        return damage_text_file(spool / random.choice(("formats", "formats", "tasks")), random)
    if share < 0.82:
        return damage_bytes(random.choice(sorted(spool.iterdir())), random)
    if share < 0.90:
        return special_file(random.choice(sorted(spool.iterdir())), random)
    if share < 0.94:
        one, other = random.sample(sorted(spool.iterdir()), 2)
        shutil.copy(one, other)
        return f"{one.name} as {other.name}"
    return damage_tape(tape, random, home)


def _damage_checkpoint(spool: Path, random: Random) -> str:
    file = spool / "checkpoint"
    data = file.read_bytes() if file.exists() else b'{"rows": {"event": 0}}\n' + bytes(64)
    head, _, state = data.partition(b"\n")
    how = random.choice(("rows", "words", "words", "words", "length", "json", "bytes"))
    words = bytearray(state or bytes(8))
    if how == "rows":
        rows = json.loads(head)
        name = random.choice([*rows["rows"], "event", "nothing"])
        rows["rows"][name] = random.choice((*NUMBERS, *JSON_VALUES))
        head = json.dumps(rows).encode()
    elif how == "words":
        at = random.randrange(max(len(words) // 8, 1)) * 8
        words[at : at + 8] = wrapped(random.choice(NUMBERS), 8)
    elif how == "length":
        length = random.choice((0, 1, 7, 8, 9, 16, len(words) // 2, len(words) + 8, 32_000_000))
        words = (words * (length // len(words) + 1))[:length]
    elif how == "json":
        head = random.choice(NO_CHECKPOINT)
    else:
        flip(words, random)
    file.write_bytes(head + b"\n" + words)
    return f"checkpoint: {how}"


def damage_dat(path: Path, random: Random) -> str:
    if random.random() < 0.06:
        return special_file(path, random)
    done = [damage_bytes(path, random)]
    while random.random() < 0.3:
        done.append(damage_bytes(path, random))
    return "; ".join(done)


def damage_proc(directory: Path, random: Random) -> str:
    """Copies of /proc files: texts, and the words of kpageflags."""
    done = []
    files = sorted(path for path in directory.iterdir() if path.is_file())
    for file in random.sample(files, random.choice((1, 1, 2, 4))):
        share = random.random()
        if share < 0.06:
            done.append(special_file(file, random))
        elif file.name.startswith("kpageflags"):
            done.append(_damage_flags(file, random))
        elif share < 0.75:
            done.append(damage_text_file(file, random))
        elif share < 0.87:
            done.append(damage_bytes(file, random))
        elif share < 0.9 and (place := file.name.rpartition(".")[2]) in ("before", "after"):
            (directory / place).mkdir(exist_ok=True)  # another layout
            file.rename(directory / place / file.name.removesuffix(f".{place}"))
            done.append(f"{file.name} below {place}/")
        else:
            other = random.choice(files)
            if other.is_file() and other != file:
                shutil.copy(other, file)
            done.append(f"{other.name} as {file.name}")
    return "; ".join(done) or "nothing"


def _damage_flags(file: Path, random: Random) -> str:
    """kpageflags: compressed as it is, or the words in it."""
    if file.suffix != ".zst" or random.random() < 0.25:
        return damage_bytes(file, random)
    words = bytearray(pa.input_stream(str(file), compression="zstd").read())
    how = random.choice(("bytes", "flags", "order", "bomb"))
    if how == "flags":
        first = random.randrange(len(words) // 8)
        flags = struct.pack("<Q", 1 << random.randrange(64))
        nr = min(random.choice((1, 512, 100_000)), len(words) // 8 - first)
        words[first * 8 : (first + nr) * 8] = flags * nr
    elif how == "order":  # the same pages a few places further
        del words[: 8 * random.choice((1, 3, 512))]
    elif how == "bomb":
        words = bytearray(1)
    else:
        random.choice(BYTES)(words, random)
    with pa.output_stream(str(file), compression="zstd") as out:
        if how == "bomb":
            for _ in range(6000):
                out.write(bytes(1 << 20))
        else:
            out.write(bytes(words))
    return f"{how} in {file.name}"
