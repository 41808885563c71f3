# SPDX-License-Identifier: Apache-2.0
"""Every command of README.md and docs/*.md, page by page, in the order of each page.

All pages are read in one directory, that of a reader who stands in a clone. Lines after `$ ` in
console blocks are run; lines below a command must be lines of its output. A block inside a
comment of HTML is run too, and readers do not see it: it shows where a figure of the prose comes
from. So is a command in a cell of a table that names a bundled tape. `make` runs with -n. Commands
that trace this machine, and commands that read a tape of one, are live tests. They have a directory
of their own, as they run apart from the others. So have commands of which a page shows no output,
and that no such command needs: the bundled tapes of that directory are beginnings of the others.

A figure in the prose of a page for readers stands in one of these outputs, or on the page that
its paragraph links to. Figures that are no result stand in a comment `<!-- given: ... -->`.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import livetest
import pytest

from pagetape.diagnosing import diagnosis
from pagetape.schemas.tape import Tape

from .conftest import beginning

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# The pages that the laboratory writes, and those for developers, have other tests.
PROSE = [
    page
    for page in PAGES
    if page.stem
    in ("README", "tutorial", "questions", "reports", "install", "diagnose", "policies")
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
    hidden: bool = False  # in a comment

    @property
    def made(self) -> set[str]:
        """The files and archives that it writes."""
        words = self.line.split()
        archive = {words[-1]} if words[1:2] in (["archive"], ["ship"]) else set()
        return files_of(self) | archive

    @property
    def exact(self) -> bool:
        """Whether the page tells what it prints."""
        return self.live or self.hidden or any(line not in ("", "...") for line in self.output)


RECORDERS = ("ab", "doctor", "install-service", "record", "top")


def traces(words: list[str]) -> bool:
    """Whether a command traces this machine, with or without sudo."""
    return words[0] == "pagetape" and words[1] in RECORDERS and "--help" not in words


def commands(page: Path) -> list[Command]:
    found: list[Command] = []
    live_files: set[str] = set()
    seen = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    seen = seen.replace("$ sudo ", "$ ").replace("\\\n", "")
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
            found.append(Command(command, live, [], f"\n$ {command}" not in seen))
    in_tables = re.findall(
        r"^\|.*\| `(pagetape .*? analyze/demo/.*?)` \|", page.read_text(), re.MULTILINE
    )
    return found + [Command(line, False, []) for line in in_tables]


def words_of(text: str) -> list[str]:
    """Each line with one space between words: pages show wide tables narrower."""
    return [" ".join(line.split()) for line in text.splitlines()]


COMMANDS = [(page, command) for page in PAGES for command in commands(page)]


def needed(command: Command, later: Sequence[Command], *, exact: bool) -> bool:
    """Whether it runs on whole tapes (`exact`) or on beginnings, maybe for a later command."""
    return command.exact == exact or any(
        needed(one, later[nr + 1 :], exact=exact)
        for nr, one in enumerate(later)
        if command.made & set(one.line.replace("./", "").split())
    )


Desks = Callable[[bool], Path]  # that with whole tapes, or that with beginnings


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> Desks:
    """A clone, files from a host, and the C sources of the pages; with whole tapes or not."""
    return cache(lambda exact: desk_of(tmp_path_factory.mktemp("desk"), exact))


def desk_of(desk: Path, exact: bool) -> Path:
    (desk / "collector").symlink_to(ROOT / "collector")
    (desk / "analyze/demo").mkdir(parents=True)
    for path in (*(ROOT / "analyze").iterdir(), *(ROOT / "analyze/demo").iterdir()):
        here = desk / path.relative_to(ROOT)
        if path.suffix == ".tape" and not exact:
            beginning(path, here)
        elif not here.exists():
            here.symlink_to(path)
    data = ROOT / "collector/tests/data"
    shutil.copy(data / "linux-6.1-zstd.dat", desk / "trace.dat")
    shutil.copytree(data / "proc-6.1", desk / "proc")
    foreign = ROOT / "collector/tests/corpus/fuzz_foreign"
    names = {"perfetto": "trace.pftrace", "perf-data": "perf.data", "ftrace": "trace.txt"}
    for name, here in names.items():
        shutil.copy(foreign / name, desk / here)
    for page in PAGES:
        for source in blocks(page, "c"):
            if title := re.search(r"^ \* (\w+) - ", source, re.MULTILINE):
                (desk / f"{title[1]}.c").write_text(source)
    return desk


@pytest.fixture(scope="module")
def printed() -> dict[tuple[Path, str], str]:
    """The output of each command so far."""
    return {}


def files_of(command: Command) -> set[str]:
    """The files that a command writes."""
    return {after for word, after in pairwise(command.line.split()) if word == "-o"}


def is_whole(page: Path, command: Command) -> bool:
    """Whether the page shows an interval of the command, or of one that reads its tape."""
    readers = (c for c in commands(page) if files_of(command) & set(c.line.split()))
    return any("[" in line for c in (command, *readers) for line in c.output)


Examined = dict[tuple[str, str], diagnosis.Diagnosis]


@pytest.fixture(scope="module")
def examined() -> Examined:
    """The diagnoses of bundled tapes, by directory and tape: pages show them in several ways."""
    return {}


@pytest.fixture(autouse=True)
def examined_once(examined: Examined, monkeypatch: pytest.MonkeyPatch) -> None:
    examine = diagnosis.diagnose

    def diagnose(tape: Tape, *database: Any) -> diagnosis.Diagnosis:
        key = str(Path.cwd()), str(tape.path)
        if database or not key[1].startswith("analyze/demo/"):
            return examine(tape, *database)
        if key not in examined:
            examined[key] = examine(tape)
        return examined[key]

    monkeypatch.setattr(diagnosis, "diagnose", diagnose)


BUNDLED = re.compile(r"pagetape (?:diagnose|report) [^>|]*analyze/demo/[^>|]*")
ANSWERS: dict[tuple[str, bool], str] = {}  # about bundled tapes; several pages ask the same


def run(page: Path, command: Command, desks: Desks, pagetape: Callable[..., Any]) -> str:
    """Output of a command. A question about bundled tapes alone is asked once for all pages."""
    every = commands(page)
    later = every[every.index(command) + 1 :]
    desk = desks(exact := needed(command, later, exact=True))
    if exact and needed(command, later, exact=False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys.modules[__name__], "is_whole", lambda *_: False)
            run_anew(page, command, desks(False), pagetape)
    files = [word for word in command.line.split() if word.endswith(".tape")]
    if not BUNDLED.fullmatch(command.line) or any("/" not in name for name in files):
        return run_anew(page, command, desk, pagetape)
    if (command.line, exact) not in ANSWERS:
        ANSWERS[command.line, exact] = run_anew(page, command, desk, pagetape)
    return ANSWERS[command.line, exact]


def run_anew(page: Path, command: Command, desk: Path, pagetape: Callable[..., Any]) -> str:
    """Output of a command; whole ensembles where the page shows an interval."""
    line, directory = command.line, desk
    if line.startswith("make "):
        line, directory = line.replace("make ", "make -n ", 1), ROOT
    if command.live:  # for a second, not for several
        line = re.sub(r"(--duration|--seconds) [2-9]\b", r"\1 1", line)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        if is_whole(page, command):
            patch.delenv("PAGETAPE_ENSEMBLE")
        patch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
        if line.startswith("pagetape ") and not command.live:  # quicker than a process of its own
            done = pagetape(*shlex.split(line)[1:])
            status, out, err = done.status, done.out, done.err
        else:
            shell = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
            status, out, err = shell.returncode, shell.stdout, shell.stderr
    assert status == 0, err
    return str(out)


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
    desks: Desks,
    printed: dict[tuple[Path, str], str],
    page: Path,
    command: Command,
    pagetape: Callable[..., Any],
) -> None:
    out = printed[page, command.line] = run(page, command, desks, pagetape)
    lines = words_of(out)
    for shown in words_of("\n".join(command.output)):
        assert shown in ("", "...", *lines), f"{page.name} shows a line that is not printed"


def test_two_pages_write_no_file_of_the_same_name() -> None:
    """The pages work in one directory, in any order."""
    writers: dict[str, set[str]] = {}
    for page, command in COMMANDS:
        for file in files_of(command):
            writers.setdefault(file, set()).add(page.stem)
    assert {file: pages for file, pages in writers.items() if len(pages) > 1} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_reads_no_tape_of_another_page(page: Path) -> None:
    made: set[str] = set()
    for command in commands(page):
        words = command.line.split()
        if words[:2] == ["pagetape", "demo"]:
            made |= {"pressure.tape", "server.tape"}
        made |= files_of(command)
        read = {word for word in words if word.endswith(".tape") and "/" not in word}
        assert read <= made, command.line


def paragraphs(page: Path) -> list[str]:
    """The prose of a page: without commands, code, comments, pictures and headings."""
    text = re.sub(r"<!--.*?-->|^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^#.*$|^\d+\. |!\[.*?\]\(.*?\)|`[^`]*`", "", text, flags=re.MULTILINE)
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


NUMBER = r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w]|\.\d)"
SHARE = re.compile(r"(?: (?:and|to|of) [\d.]+)? (?:%|percent)")
YEAR_OR_LINK = re.compile(r"\b20[0-2]\d\b|\[[^\]]*\]\([^)]*\)")


def numbers(text: str) -> set[float]:
    found = re.findall(r"(?<![\d.])\d[\d,]*(?:\.\d+)?", text)
    return {float(number.replace(",", "")) for number in found}


def stands_in(figure: str, share: bool, known: set[float]) -> bool:
    """Whether a known number rounds to the figure, or its share in percent does."""
    digits = len(figure.partition(".")[2])
    wanted = float(figure.replace(",", ""))
    scales = (1, 100) if share else (1,)
    return any(round(number * scale, digits) == wanted for number in known for scale in scales)


def unfounded(page: Path, source: str) -> list[str]:
    """The figures of the prose that neither the source nor a linked page has."""
    found = []
    for paragraph in paragraphs(page):
        links = {page.parent / name for name in re.findall(r"\]\(([\w./-]+\.md)", paragraph)}
        known = numbers("\n".join([source, *(link.read_text() for link in sorted(links))]))
        text = YEAR_OR_LINK.sub("", paragraph)
        for figure in re.finditer(NUMBER, text):
            share = SHARE.match(text, figure.end()) is not None
            if not stands_in(figure[0], share, known):
                found.append(text[max(0, figure.start() - 50) : figure.end() + 20])
    return found


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.stem)
def test_each_figure_of_the_prose_is_printed(
    desks: Desks,
    printed: dict[tuple[Path, str], str],
    page: Path,
    pagetape: Callable[..., Any],
) -> None:
    source = re.findall(r"<!-- given:(.*?)-->", page.read_text(), re.DOTALL)
    for command in commands(page):
        if not command.live:
            if (page, command.line) not in printed:  # the test of the command did not run
                printed[page, command.line] = run(page, command, desks, pagetape)
            source += [command.line, printed[page, command.line]]
    assert unfounded(page, "\n".join(source)) == []


@pytest.mark.parametrize("page", PROSE, ids=lambda page: page.stem)
def test_each_verdict_of_the_prose_is_shown(page: Path) -> None:
    """By a line of `replay`, `compare` or `sweep` that the page shows."""
    shown = [line for command in commands(page) for line in words_of("\n".join(command.output))]
    undecided = [line.lower() for line in shown if "no difference shown" in line]
    for paragraph in paragraphs(page):
        for low, high, which in re.findall(r"([\d,.]+) to ([\d,.]+) (more|fewer)\b", paragraph):
            wanted = f"[-{high} to -{low}]" if which == "fewer" else f"[+{low} to +{high}]"
            assert any(wanted in line for line in shown), f"{low} to {high} {which}"
        for sentence in re.split(r"(?<=[.:;]) ", paragraph):
            if re.search(r"\bno difference\b", sentence, re.IGNORECASE):
                metrics = [re.split(r": | \S+ [ab] \d", line)[0] for line in undecided]
                named = [m for m in metrics if m.removesuffix(" at the end") in sentence.lower()]
                assert named, f"no line of the page shows this: {sentence}"


@pytest.mark.parametrize("name", ["README", "recording", "replay", "policies", "reports"])
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


def test_every_file_begins_with_what_it_holds() -> None:
    """A .c file has the comment in its header, if it has one."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [ROOT / name for name in listed.stdout.splitlines()]
    without = []
    for path in files:
        if {"tests", "bench"} & set(path.relative_to(ROOT).parts) or not path.is_file():
            continue
        if path.suffix in (".py", ".pyx"):
            begins = ('"""',)
        elif path.suffix == ".h" or (path.suffix == ".c" and not path.with_suffix(".h").exists()):
            begins = ("/*", " *")
        else:
            continue
        lines = path.read_text(errors="replace").splitlines()[:6]
        if not any(line.startswith(begins) and "SPDX" not in line for line in lines):
            without.append(str(path.relative_to(ROOT)))
    assert len(files) > 500
    assert without == []
