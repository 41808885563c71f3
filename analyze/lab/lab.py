#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure pagetape, keep every figure in results.json, and write the pages that show them.

    lab.py list                             the measurements, by group
    lab.py measure NAME... [-- ARGUMENT...] run measurements or groups; what follows -- is theirs
    lab.py pages                            write the pages anew

A measurement is a program that prints its result as JSON. The tables of a result replace those of
the same name in results.json. A page of docs/ shows the tables that it has a place for, between
the comments `<!-- NAME -->` and `<!-- end -->`. All tables, the long ones too, are in
build/lab/tables.md. Exit status 1 if a measurement failed; what it printed stays.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import program
import results

ALL_TABLES = program.ROOT / "build/lab/tables.md"
_PLACE = re.compile(r"(<!-- ([a-z0-9_]+\.[a-z0-9_]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)


@dataclass(frozen=True)
class Measurement:
    """A program, from the root of the tree, with its arguments, and what it measures."""

    group: str
    words: str
    command: tuple[str, ...]


MEASUREMENTS = {
    name: Measurement(group, words, tuple(command.split()))
    for name, (group, command, words) in results.DECLARED["measurements"].items()
}


def chosen(words: Sequence[str]) -> list[str]:
    """The measurements of these names and groups."""
    found = []
    for word in words:
        names = [n for n, m in MEASUREMENTS.items() if word in (n, m.group)]
        if not names:
            raise ValueError(f"no measurement '{word}'; see: lab.py list")
        found += names
    return list(dict.fromkeys(found))


def measure(name: str, arguments: Sequence[str], path: Path = results.RESULTS) -> bool:
    """Run a measurement and store its tables; whether it succeeded."""
    one = MEASUREMENTS[name]
    words = [*one.command, *arguments]
    program.say(f"== {name}: {' '.join(words)}")
    done = subprocess.run(
        [sys.executable, *words], cwd=program.ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        result = json.loads(done.stdout)
    except ValueError:
        program.say(f"lab: {name}: no result")
        return False
    shown = ["DIR" if Path(word).is_absolute() else word for word in arguments]
    found = results.stamped(result, name, " ".join([*one.command, *shown]))
    others = {title: t for title, t in results.read(path).items() if title.split(".")[0] != name}
    results.write(others | found, path)
    for title, table in found.items():
        print(f"\n{title}\n\n{results.markdown(title, table)}")
    return done.returncode == 0


def filled(text: str, tables: Mapping[str, results.Table]) -> str:
    """A page with the tables of today. ValueError: a table of the page is missing."""

    def place(found: re.Match[str]) -> str:
        if found[2] not in tables:
            raise ValueError(f"results.json has no table '{found[2]}'")
        return f"{found[1]}{results.markdown(found[2], tables[found[2]])}\n"

    return _PLACE.sub(place, text)


def _all(tables: Mapping[str, results.Table]) -> Iterator[str]:
    yield "# All tables of the laboratory\n"
    yield "A median has its interval in brackets, and before it, if recorded, the recorded value.\n"
    for name, table in tables.items():
        head = f"`{table['command']}`, {table['date']}, {table['machine']}"
        yield f"## {name}\n\n{head}\n\n{results.markdown(name, table)}\n"


def pages() -> list[Path]:
    """The pages of docs/ that show a table."""
    found = sorted((program.ROOT / "docs").glob("**/*.md"))
    return [page for page in found if _PLACE.search(page.read_text("utf-8"))]


def write_pages() -> None:
    tables, names = results.read(), []
    for page in pages():
        names.append(page.name)
        page.write_text(filled(page.read_text("utf-8"), tables), "utf-8")
    ALL_TABLES.parent.mkdir(parents=True, exist_ok=True)
    ALL_TABLES.write_text("\n".join(_all(tables)), "utf-8")
    print(f"written: {', '.join(names)}, {ALL_TABLES}")


def main() -> int:
    parser = program.parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    commands.add_parser("pages")
    measuring = commands.add_parser("measure")
    measuring.add_argument("names", nargs="+")
    own, dashes = sys.argv[1:], []
    if "--" in own:
        at = own.index("--")
        own, dashes = own[:at], own[at + 1 :]
    given = parser.parse_args(own)
    if given.command == "list":
        for name, one in MEASUREMENTS.items():
            print(f"{one.group}\t{name}\t{one.words}")
        return 0
    names = chosen(given.names) if given.command == "measure" else []
    wrong = [name for name in names if not measure(name, dashes)]
    write_pages()
    if wrong:
        program.say(f"lab: failed: {', '.join(wrong)}")
    return int(bool(wrong))


if __name__ == "__main__":
    program.run(main)
