# SPDX-License-Identifier: Apache-2.0
"""Every command of README.md and docs/*.md, page by page, in the order of each page.

A page is read in a directory of its own, that of a reader who stands in a clone. Lines after
`$ ` in console blocks are run; lines below a command must be lines of its output. `make` runs
with -n. Commands that trace this machine, and commands that read a tape of one, are live tests.
They have a directory of their own, as they run apart from the others.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import livetest
import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/questions").glob("*.md")),
]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of that language."""
    found = re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
    return [str(text) for text in found]


class Command(NamedTuple):
    """One command of a page."""

    line: str  # without sudo and without its comment
    live: bool  # whether it traces this machine, or reads a tape of such a command
    output: list[str]  # lines that the page shows of what it prints


RECORDERS = ("ab", "doctor", "install-service", "record", "top")


def traces(words: list[str]) -> bool:
    """Whether a command traces this machine, with or without sudo."""
    return words[0] == "pagetape" and words[1] in RECORDERS and "--help" not in words


def commands(page: Path) -> list[Command]:
    found: list[Command] = []
    live_files: set[str] = set()
    for text in blocks(page, "(?:console|sh)"):
        for line in text.replace("\\\n", "").splitlines():
            if not line.startswith("$ "):
                found[-1].output.append(line)
                continue
            command = line.removeprefix("$ ").split("    #")[0].strip()
            root = command.startswith("sudo ")
            command = command.removeprefix("sudo ")
            words = command.split()
            live = root or traces(words) or bool(live_files & set(words))
            if live and "-o" in words:
                live_files.add(words[words.index("-o") + 1])
            found.append(Command(command, live, []))
    return found


def words_of(text: str) -> list[str]:
    """Each line with one space between words: pages show wide tables narrower."""
    return [" ".join(line.split()) for line in text.splitlines()]


COMMANDS = [(page, command) for page in PAGES for command in commands(page)]


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """For each page: a clone, files brought from a host, and the page's own C sources."""
    desks = {}
    for page in PAGES:
        desk = desks[page] = tmp_path_factory.mktemp(page.stem)
        for room in ("analyze", "collector"):
            (desk / room).symlink_to(ROOT / room)
        shutil.copy(ROOT / "collector/tests/data/linux-6.12.dat", desk / "trace.dat")
        (desk / "proc").mkdir()
        for name in ("zoneinfo", "buddyinfo", "vmstat"):
            for when in ("before", "after"):
                (desk / "proc" / f"{name}.{when}").write_bytes(Path("/proc", name).read_bytes())
        for source in blocks(page, "c"):
            if title := re.search(r"^ \* (\w+) - ", source, re.MULTILINE):
                (desk / f"{title[1]}.c").write_text(source)
    return desks


@pytest.mark.parametrize(
    ("page", "command"),
    [
        pytest.param(
            page,
            command,
            id=f"{page.stem}: {command.line}",
            marks=[livetest.recording] if command.live else [],
        )
        for page, command in COMMANDS
    ],
)
def test_the_command_works(
    desks: dict[Path, Path],
    page: Path,
    command: Command,
    pagetape: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    line, directory = command.line, desks[page]
    if line.startswith("make "):
        line, directory = line.replace("make ", "make -n ", 1), ROOT
    monkeypatch.chdir(directory)
    if any("[" in shown for shown in command.output):  # intervals of a whole ensemble
        monkeypatch.delenv("PAGETAPE_ENSEMBLE")
    monkeypatch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
    if line.startswith("pagetape ") and not command.live:  # quicker than a process of its own
        done = pagetape(*shlex.split(line)[1:])
        status, out, err = done.status, done.out, done.err
    else:
        shell = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        status, out, err = shell.returncode, shell.stdout, shell.stderr
    assert status == 0, err
    printed = words_of(out)
    for shown in words_of("\n".join(command.output)):
        assert shown in ("", "...", *printed), f"{page.name} shows a line that is not printed"


@pytest.mark.parametrize("name", ["README", "recording", "replay", "policies", "sweep", "reports"])
def test_the_page_has_commands(name: str) -> None:
    assert sum(page.stem == name for page, _ in COMMANDS) > 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for file, section in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text()):
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name}: {file}"
        if section:
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
            assert section in anchors, f"{page.name}: {file}#{section}"


def file_map() -> dict[str, set[str]]:
    """Of each room that CONTRIBUTING.md maps: the names in its table, maybe with a *."""
    text = (ROOT / "docs/CONTRIBUTING.md").read_text()
    text = text[text.index("## The files") : text.index("## The way of one event")]
    rooms: dict[str, set[str]] = {}
    room = ""
    for line in text.splitlines():
        if found := re.match(r"(?:### |\*\*`)([a-z/]+)/", line):
            room = found[1]
        elif found := re.match(r"\| `(\w+)/` \| holds", line):
            own = f"analyze/{found[1]}"
            room = own if (ROOT / own).is_dir() else f"analyze/pagetape/{found[1]}"
        elif line.startswith("| `"):
            names = re.findall(r"`([\w*]+)`", line.split("|")[1])
            rooms.setdefault(room, set()).update(names)
    return {room: names for room, names in rooms.items() if room not in ("analyze", "queries")}


@pytest.mark.parametrize(("room", "names"), file_map().items(), ids=list(file_map()))
def test_the_map_has_every_file_of_the_room(room: str, names: set[str]) -> None:
    endings = {".c", ".h", ".py", ".pyx", ".pxi"}
    stems = {path.name.split(".")[0] for path in (ROOT / room).iterdir() if path.suffix in endings}
    if room.startswith("analyze"):
        stems.discard("__init__")
    missing = {stem for stem in stems if not any(fnmatch(stem, name) for name in names)}
    gone = {name for name in names if not any(fnmatch(stem, name) for stem in stems)}
    assert (missing, gone) == (set(), set())


def test_the_map_has_every_directory() -> None:
    """Those of the reports and of tests follow a rule that the map gives."""
    text = (ROOT / "docs/CONTRIBUTING.md").read_text()
    places = [*(ROOT / "analyze").iterdir(), *(ROOT / "analyze/pagetape").iterdir()]
    names = {path.name for path in places if path.is_dir()}
    names |= {"views", "macros", "internal"} | {
        path.parent.name for path in ROOT.glob("replay/*/*.c")
    }
    for name in names - {"tests", "bench", "pagetape", "__pycache__"}:
        assert re.search(rf"`[\w/]*\b{name}/", text), name
