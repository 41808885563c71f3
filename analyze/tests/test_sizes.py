# SPDX-License-Identifier: Apache-2.0
"""How large functions and files may be: C, Cython and Python, tests included.

A command's function has one parameter for each option, so Click's are exempt from that limit.
Files of tests may be longer; pages, data and tables of numbers have no limit.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAX_LINES = 80  # of a function, from its name to its last line
MAX_PARAMETERS = 6  # without self or cls
MAX_FILE_LINES = 600

C = {".c", ".h"}
CYTHON = {".pyx", ".pxi"}
PYTHON = {".py", ".pyi"}
CODE = {*C, *CYTHON, *PYTHON, ".sql", ".toml", ".build", ".css", ""}
DATA = {"data", "corpus"}  # directories of inputs


@dataclass(frozen=True)
class Function:
    name: str
    lines: int
    parameters: int


def code_files() -> Iterator[Path]:
    """Every tracked file of code."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if path.suffix in CODE and not DATA.intersection(path.parts) and path.is_file():
            yield path


def functions(path: Path, text: str) -> Iterator[Function]:
    if path.suffix in C:
        yield from c_functions(text)
    elif path.suffix in CYTHON:
        yield from cython_functions(text)
    elif path.suffix in PYTHON or text.startswith("#!/usr/bin/env python"):
        yield from python_functions(text)


# Python


def python_functions(text: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            a = node.args
            names = [arg.arg for arg in (*a.posonlyargs, *a.args)]
            own = names[:1] in (["self"], ["cls"])
            rest = len(a.kwonlyargs) + (a.vararg is not None) + (a.kwarg is not None)
            parameters = 0 if is_command(node) else len(names) - own + rest
            yield Function(node.name, (node.end_lineno or 0) - node.lineno + 1, parameters)


def is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether Click calls it, with one argument for each option."""
    calls = (ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list)
    return any(call in ("click.command", "click.group") for call in calls)


# C


def blanked(text: str) -> str:
    """C without comments and contents of literals; every line stays."""
    plain = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    return plain.sub(lambda found: "\n" * found[0].count("\n") or " ", text)


def c_functions(text: str) -> Iterator[Function]:
    """Definitions of functions, and macros with parameters."""
    text = blanked(text)
    directive = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
    for found in directive.finditer(text):
        if macro := re.match(r"\s*#\s*define\s+(\w+)\(([^)]*)\)", found[0]):
            yield Function(macro[1], found[0].count("\n") + 1, len(split(macro[2])))
    text = directive.sub(lambda found: "\n" * found[0].count("\n"), text)
    depth = begin = 0  # `begin`: after the end of the declaration before
    header = ""
    for at in (found.start() for found in re.finditer(r"[{};]", text)):
        if text[at] == "{":
            depth += 1
            if depth == 1:
                header = text[begin:at].strip()
                begin = text.index(header, begin)
        elif text[at] == "}":
            depth -= 1
            if depth == 0 and header.endswith(")"):
                opened = opening(header)
                name = re.findall(r"\w+", header[:opened])[-1]
                lines = text.count("\n", begin, at) + 1
                yield Function(name, lines, len(split(header[opened + 1 : -1])))
        if depth == 0:
            begin = at + 1


def opening(header: str) -> int:
    """Where the parenthesis opens that ends the header."""
    depth = 0
    for at in range(len(header) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(header[at], 0)
        if not depth:
            return at
    raise ValueError(header)


def split(parameters: str) -> list[str]:
    """Parameters, split at the commas that stand in no brackets."""
    depth = 0
    found = [""]
    for char in parameters:
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return [one.strip() for one in found if one.strip() not in ("", "void")]


# Cython


def cython_functions(text: str) -> Iterator[Function]:
    """Functions by their indentation."""
    text = re.sub(r"#[^\n]*", "", text)
    text = re.sub(
        r'"""(.*?)"""|"[^"\n]*"', lambda found: "\n" * found[0].count("\n"), text, flags=re.S
    )
    head = re.compile(
        r"^( *)(?:cp?def|def) (?!class\b)[^\n=(:]*?(\w+)\((.*?)\)[^\n()]*:\n", re.M | re.S
    )
    for found in head.finditer(text):
        lines = text[found.start() :].splitlines()
        after = found[0].count("\n")
        body = 0
        for number, line in enumerate(lines[after:], 1):
            if line.strip() and not line.startswith(found[1] + " "):
                break
            body = number if line.strip() else body
        names = [one for one in split(found[3]) if one not in ("*", "/", "self", "cls")]
        yield Function(found[2], after + body, len(names))


# The limits


def offenders(path: Path, text: str) -> Iterator[str]:
    """What is too large in a file, one line each."""
    lines = text.count("\n")
    if lines > MAX_FILE_LINES and "tests" not in path.parts:
        yield f"{path}: {lines} lines"
    for function in functions(path, text):
        if function.lines > MAX_LINES:
            yield f"{path}: {function.name} has {function.lines} lines"
        if function.parameters > MAX_PARAMETERS:
            yield f"{path}: {function.name} has {function.parameters} parameters"


def test_no_function_and_no_file_is_too_large() -> None:
    found = [
        line
        for path in code_files()
        for line in offenders(path.relative_to(ROOT), path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_the_functions_of_each_language_are_found() -> None:
    """Known ones: a parser that finds nothing would pass every file."""
    for name, function in (
        ("replay/model/buddy.c", "buddy_free"),
        ("collector/_collector.pyx", "free_blocks"),
        ("analyze/pagetape/recording/capture.py", "write_events"),
        ("analyze/demo/picture", "main"),
    ):
        path = ROOT / name
        assert function in {found.name for found in functions(path, path.read_text())}, name


C_SOURCE = """
/* int comment(int a, int b, int c, int d, int e, int f, int g) { */
#define MANY(a, b, c, d, e, f, g) \\
	(a + b)
struct s { int (*op)(int, int); };
static const int table[] = {1, 2, 3};
int declared(int a);

static int
many(int a, const char *b, int (*call)(int, int), int d, int e, int f,
     struct s *g)
{
	if (a) {
		puts("} {");
	}
	return 0;
}
int none(void) { return '{'; }
"""

CYTHON_SOURCE = """
cdef extern from "x.h":
    int declared(int a, int b)

cdef class Many(Source):
    cdef int field

    def __init__(
        self, a, b=(1, 2), c="x(", *,
        d=0, e=1, f=None, g=None,
    ):
        self.field = a

        # a comment
        return

cdef int none() except -1:
    return 0
"""

PYTHON_SOURCE = """
class Many:
    def __init__(self, a, /, b, c, *d, e, f, **g):
        pass

@click.command("run")
@click.option("-a")
def run(a, b, c, d, e, f, g): ...

@cache
def none(): ...
"""


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.c", C_SOURCE, [("MANY", 2, 7), ("many", 9, 7), ("none", 1, 0)]),
        ("a.pyx", CYTHON_SOURCE, [("__init__", 8, 7), ("none", 2, 0)]),
        ("a.py", PYTHON_SOURCE, [("run", 1, 0), ("none", 1, 0), ("__init__", 2, 7)]),
        ("a.sql", "SELECT f(1, 2, 3, 4, 5, 6, 7)", []),
    ],
)
def test_lines_and_parameters_of_functions(
    name: str, text: str, expected: list[tuple[str, int, int]]
) -> None:
    assert [*functions(Path(name), text)] == [Function(*numbers) for numbers in expected]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.c", C_SOURCE, ["MANY has 7 parameters", "many has 7 parameters"]),
        ("a.pyx", CYTHON_SOURCE, ["__init__ has 7 parameters"]),
        ("a.py", PYTHON_SOURCE, ["__init__ has 7 parameters"]),
        ("a.c", "int f(void)\n{\n" + "\n" * 77 + "}\n", []),
        ("a.c", "int f(void)\n{\n" + "\n" * 78 + "}\n", ["f has 81 lines"]),
        ("a.py", "def f():\n" + "    pass\n" * 79, []),
        ("tests/a.py", "def f():\n" + "    pass\n" * 80, ["f has 81 lines"]),
        ("a.pyx", "cdef f():\n" + "    pass\n" * 80, ["f has 81 lines"]),
        ("a.sql", "\n" * 600, []),
        ("a.sql", "\n" * 601, ["601 lines"]),
        ("tests/a.py", "\n" * 601, []),
    ],
)
def test_an_offender_is_named(name: str, text: str, expected: list[str]) -> None:
    assert [*offenders(Path(name), text)] == [f"{name}: {what}" for what in expected]
