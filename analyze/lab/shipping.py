#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kill shippers of the same tapes at random, while their server fails at times.

    shipping.py [--tapes N] [--kills N]

A reader looks at the archive all the while: it must find whole tapes only, and never fewer than
before. At the end the archive has each tape once. Exit status 1 otherwise.

A kill counts if SIGKILL ended the shipper before it had said a line about each tape; otherwise it
is tried again. Each killed shipper has a fifth of 200 tapes, drawn anew, which makes a kill cheap;
at the end each ships all.
"""

from __future__ import annotations

import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import program
import s3_server

from pagetape.archive import listing, names, put
from pagetape.archive.store import Object, Store, open_store
from pagetape.schemas.tape import Tape
from pagetape.tapes import output


def copied(source: Tape, path: Path, **facts: Any) -> Path:
    """The rows of a tape as another recording, with these facts, in one file."""
    about = source.facts | facts
    with output.whole_tape(path, about, replace=False, inputs=[], durable=False) as tape:
        for name in source.tables:
            for batch in source.batches(name):
                tape.write(name, batch)
    return path


def make_tapes(base: Path, directory: Path, number: int) -> list[Path]:
    """Tapes of one machine, as a rotation makes them: the rows of `base`, at other times."""
    source, paths = Tape(base), []
    directory.mkdir(exist_ok=True)
    for nr in range(number):
        day = f"2026-11-{1 + nr % 28:02}"
        path = copied(
            source,
            directory / f"host-{day}T{100000 + nr}Z.tape",
            boot_id="9d0f6d6c-7c1b-4a86-9d0e-5c1c5c5a1e10",
            recorded_at=f"{day}T10:00:00+00:00",
            series={"since": "2026-11-01T00:00:00+00:00", "number": nr},
        )
        paths.append(path)
    return paths


_PART = 40  # tapes of a shipper that is killed


@dataclass
class Reader:
    """Looks at an archive again and again."""

    store: Store
    polls: int = 0
    wrong: list[str] = field(default_factory=list)
    _seen: dict[str, Object] = field(default_factory=dict)

    def look(self) -> None:
        found = {one.name: one for _, one in listing.tapes(self.store, say=self.wrong.append)}
        if lost := self._seen.keys() - found.keys():
            self.wrong.append(f"{len(lost)} tapes are gone")
        for name in found.keys() - self._seen.keys():
            self._check(name)
        self._seen = found
        self.polls += 1

    def _check(self, name: str) -> None:
        with tempfile.TemporaryDirectory() as room:
            self.store.fetch(name, Path(room) / "one.tape")
            tape = Tape(Path(room) / "one.tape")
            put.check_whole(tape)
            if names.object_name(tape) != name:
                self.wrong.append(f"{name} has the tape {names.object_name(tape)}")


def _started(tapes: Path, url: str) -> subprocess.Popen[str]:
    command = [program.BIN / "pagetape", "ship", str(tapes), url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _parts(paths: Sequence[Path]) -> list[Path]:
    """Directories beside that of the tapes, with links to some of them in each."""
    found = []
    for first in range(max(len(paths) // _PART, 1)):
        found.append(paths[0].parent.with_name(f"{paths[0].parent.name}.{first}"))
        found[-1].mkdir()
        for path in paths[first :: max(len(paths) // _PART, 1)]:
            (found[-1] / path.name).hardlink_to(path)
    return found


def _killed(tapes: Path, url: str, lines: int, pause: float) -> bool:
    """Kill a shipper after some lines, one for each tape; whether that ended it on its way."""
    number = len(list(tapes.glob("*.tape")))
    with _started(tapes, url) as process:
        assert process.stdout
        for _ in range(lines):
            if not process.stdout.readline():
                break
        time.sleep(pause)
        process.kill()
        said = lines + process.stdout.read().count("\n")
        return process.wait() == -signal.SIGKILL and said < number


def fire(
    tapes: Path, url: str, kills: int, seed: int = 1, disturb: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Let four shippers of the same tapes die `kills` times each, and then end."""
    paths, ended = sorted(tapes.glob("*.tape")), Event()
    parts = _parts(paths)
    reader = Reader(open_store(url, create=True))

    def ship(nr: int) -> int:
        draw, killed = random.Random(seed * 100 + nr), 0
        while killed < kills:
            part = draw.choice(parts)
            lines = draw.randrange(len(list(part.iterdir())))
            killed += _killed(part, url, lines, draw.uniform(0, 0.05))
            program.say(f"shipping: shipper {nr}: {killed} kills")
        program.run_pagetape("ship", tapes, url)
        return killed

    def read() -> None:
        while not ended.wait(0.2):
            reader.look()

    with ThreadPoolExecutor(6) as pool:
        watching = pool.submit(read)
        disturbing = pool.submit(disturb)
        shippers = [pool.submit(ship, nr) for nr in range(4)]
        try:
            killed = sum(shipper.result() for shipper in shippers)
        finally:
            ended.set()
        disturbing.result()
        watching.result()
    reader.look()
    return {
        "tapes": len(paths),
        "killed in mid-run": killed,
        "objects": len(reader._seen),
        "looks of the reader": reader.polls,
        "wrong": reader.wrong,
    }


def _down(server: s3_server.Server, times: int) -> None:
    """Let the server vanish for a second, several times."""
    for _ in range(times):
        time.sleep(5)
        server.proxy.down = True
        time.sleep(1)
        server.proxy.down = False


def main() -> int:
    parser = program.parser(__doc__)
    parser.add_argument("--tapes", type=int, default=200)
    parser.add_argument("--kills", type=int, default=50, help="of each of four shippers")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as text, s3_server.Server(failing=0.05) as server:
        room = Path(text)
        server.use()
        dat = program.ROOT / "collector/tests/data/linux-6.1-zstd.dat"
        program.run_pagetape("import", dat, "-o", room / "base.tape")
        make_tapes(room / "base.tape", room / "tapes", given.tapes)
        url, since = f"s3://{s3_server.BUCKET}/fire", time.monotonic()
        found = fire(room / "tapes", url, given.kills, disturb=lambda: _down(server, 5))
        for line in found["wrong"]:
            program.say(f"shipping: {line}")
        figures = found | {
            "wrong": len(found["wrong"]),
            "requests": len(server.proxy.requests),
            "answers 503": server.proxy.failed,
            "s": round(time.monotonic() - since),
        }
    program.give({"figures": program.table(("figure", "value"), figures.items())})
    return int(bool(found["wrong"]) or found["objects"] != found["tapes"])


if __name__ == "__main__":
    program.run(main)
