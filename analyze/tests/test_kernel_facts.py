# SPDX-License-Identifier: Apache-2.0
"""A fact about a release stands in schemas/kernels.toml; C, Python and SQL have it from there."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pagetape.asking.database import Database
from pagetape.asking.machine_rows import MACHINE
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, Writer
from pagetape.tapes import kernel_rows

ROOT = Path(__file__).parents[2]
GENERATE = ROOT / "schemas/generate_kernels.py"
KERNELS = ROOT / "schemas/kernels.toml"

_TEXT = re.compile(r"[2-9]\.\d{1,2}(\.\d+)?")  # of a release
_NAMED = re.compile(r"kernel|release|version", re.IGNORECASE)


def sql_errors(text: str) -> list[str]:
    """Comparisons with a kernel's release in SQL; comments do not count."""
    code = re.sub(r"--.*", "", text)
    operator = r"([<>=!]+|(NOT\s+)?(I?LIKE|IN|BETWEEN|SIMILAR\s+TO)\b)"
    compared = rf"\b(kernel|release|version)\b\s*{operator}\s*[(]?['\d]"
    errors = [found[0] for found in re.finditer(compared, code, re.IGNORECASE)]
    errors += [word for word in code.split("'")[1::2] if _TEXT.fullmatch(word)]
    return errors + re.findall("kernel_version", code)


def _is_version(node: ast.expr, *, of_kernel: bool) -> bool:
    """Whether an operand is a release: its text, its numbers, or 1000 * major + minor."""
    match node:
        case ast.Constant(value=str(text)):
            return _TEXT.fullmatch(text) is not None
        case ast.Constant(value=int(number)):
            return of_kernel and not isinstance(number, bool) and number > 1
        case ast.Tuple(elts=[ast.Constant(value=int(major)), ast.Constant(value=int()), *_]):
            return of_kernel and 2 <= major <= 9
    return False


def python_errors(text: str) -> list[str]:
    """Comparisons with a kernel's release in Python."""
    errors = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            of_kernel = any(_NAMED.search(ast.unparse(one)) for one in operands)
            if any(_is_version(one, of_kernel=of_kernel) for one in operands):
                errors.append(ast.unparse(node))
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("startswith", "match", "fullmatch")
            and any(
                isinstance(a, ast.Constant) and isinstance(a.value, str) and _TEXT.match(a.value)
                for a in node.args
            )
        ):
            errors.append(ast.unparse(node))
    return errors


def product(ending: str) -> Iterator[Path]:
    """The files that are installed; tests and measurements may name a release."""
    for room in ("queries", "schemas", "collector", "replay", "analyze/pagetape"):
        for path in sorted((ROOT / room).rglob(f"*{ending}")):
            if not {"tests", "bench"} & set(path.relative_to(ROOT).parts):
                yield path


def test_no_sql_compares_a_release() -> None:
    texts = {path.name: path.read_text() for path in product(".sql")}
    assert len(texts) > 100
    assert {name: e for name, text in texts.items() if (e := sql_errors(text))} == {}


_FORM = {"release[0] == 2"}  # how many numbers name a series of releases


def test_no_python_compares_a_release() -> None:
    found = {}
    for path in product(".py"):
        errors = [e for e in python_errors(path.read_text()) if e not in _FORM]
        if errors:
            found[path.name] = errors
    assert found == {}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT kernel_version >= 5014",
        "SELECT * FROM machine AS m WHERE m.kernel LIKE '6.%'",
        "WHERE kernel < '6.15'",
        "CASE kernel_row WHEN '6.18' THEN 1 END",
    ],
)
def test_a_release_in_sql_is_found(sql: str) -> None:
    assert sql_errors(sql)
    assert not sql_errors(f"-- {sql}\nSELECT kernel FROM machine WHERE kernel_row IS NOT NULL")


@pytest.mark.parametrize(
    "code",
    [
        "kernel_version(facts) >= 5014",
        "row == '6.18'",
        "'6.12.117' in rows",
        "release >= (6, 15)",
        "release < (6, 15, 2)",
        "kernel.startswith('6.1')",
    ],
)
def test_a_release_in_python_is_found(code: str) -> None:
    assert python_errors(code)


def test_each_column_of_the_kernel_has_a_name_of_its_own() -> None:
    """A statement that joins a table with `machine` needs no longer names for them."""
    features = [f.column or f.name for f in kernel_rows.features()]
    ours = [*features, *(one.name for one in kernel_rows.interfaces()), "kernel_row"]
    assert set(ours) <= set(MACHINE.names)
    assert len(MACHINE.names) == len(set(MACHINE.names))
    for table in TABLES.values():
        assert not {column.name for column in table.columns} & set(ours), table.name


# ---- a row that is added


ROW = """
[[row]]
name = "9.9"
doc = "A row of this test."
since = ["9.9"]
source = ["9.9.1"]
[row.features]
pcp_lists = "PCP_LISTS_3"
compact_gap_max = 77
cold_pages = true
"""

PRINT = r"""
#include "model/kernel.h"

#include <stdio.h>

int main(void)
{
	const struct kernel *k;
	struct error err;

	if (kernel_for_release(&k, "9.10.3-amd64", &err))
		return 1;
	printf("%s %s %d %d ", k->name, kernels[NR_KERNELS - 1].name, k->pcp_lists == PCP_LISTS_3,
		k->compact_gap_max);
	printf("%d %d %d\n", k->cold_pages, k->skip_awake_nodes, k->decay == DECAY_PIECES);
	puts(kernel_names[DEFAULT_FALLBACK_KERNEL]);
	return 0;
}
"""


@pytest.fixture
def added(tmp_path: Path) -> Path:
    """kernels.toml with one row more."""
    path = tmp_path / "kernels.toml"
    path.write_text(KERNELS.read_text() + ROW)
    return path


def generated(kernels: Path) -> "subprocess.CompletedProcess[str]":
    names = ("kernel_rows.h", "kernel_rows.c", "kernels.json")
    words = [sys.executable, GENERATE, kernels, *map(kernels.with_name, names)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_an_added_row_reaches_c(added: Path, tmp_path: Path) -> None:
    assert generated(added).returncode == 0
    (tmp_path / "print.c").write_text(PRINT)
    sources = ["print.c", "kernel_rows.c", ROOT / "replay/model/kernel.c", ROOT / "schemas/error.c"]
    dirs = ["-I.", f"-I{ROOT / 'replay'}", f"-I{ROOT / 'schemas'}"]
    words = ["cc", "-std=gnu11", "-Wall", "-Werror", *dirs, *sources, "-o", "print"]
    subprocess.run(words, cwd=tmp_path, check=True)
    said = subprocess.run(tmp_path / "print", capture_output=True, text=True, check=True).stdout
    default = tomllib.loads(KERNELS.read_text())["default_fallback"]
    before = kernel_rows.rules(kernel_rows.known()[-1].name)
    inherited = f"{before['skip_awake_nodes']:d} {before['decay'] == 'DECAY_PIECES':d}"
    assert said == f"9.9 9.9 1 77 1 {inherited}\n{default}\n"


def test_an_added_row_reaches_python_and_sql(
    added: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tomllib.loads(added.read_text())
    before = kernel_rows.rules(kernel_rows.known()[-1].name)
    caches: tuple[Any, ...] = (kernel_rows.known, kernel_rows._all_spans, kernel_rows._looked_at)
    for function in caches:
        function.cache_clear()
    monkeypatch.setattr(kernel_rows, "_file", lambda: file)
    try:
        assert kernel_rows.named("9.9") == "9.9 (9.9.0 and later)"
        assert kernel_rows.within("9.9") == ["9.9"]
        assert kernel_rows.rules("9.9")["decay"] == before["decay"]
        run = {"kernel": "9.9", "own": True, "policies": [], "reclaim": "R0", "tier": "A"}
        with Writer(tmp_path / "t.tape", {"kernel": "9.9.1", "replay": run}):
            pass
        columns = "kernel_row, pcp_lists, compact_gap_max, cold_pages, decay"
        with Database([Tape(tmp_path / "t.tape")]) as db:
            lists = "[has_lists(0, 9, pcp_lists), has_lists(1, 9, pcp_lists)]"
            rows = db.ask(f"SELECT {columns}, {lists} FROM machine").rows
        assert rows == [("9.9", "PCP_LISTS_3", 77, True, before["decay"], [True, False])]
    finally:
        monkeypatch.undo()
        for function in caches:
            function.cache_clear()


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ('"PCP_LISTS_3"', '"PCP_LISTS_4"', "row 9.9: pcp_lists cannot be 'PCP_LISTS_4'"),
        ("cold_pages = true", "cold_pages = 1", "row 9.9: cold_pages cannot be 1"),
        ("= 77", "= 256", "row 9.9: compact_gap_max cannot be 256"),
        ("= 77", "= true", "row 9.9: compact_gap_max cannot be True"),
        ("cold_pages", "warm_pages", "row 9.9: there is no feature warm_pages"),
        ('since = ["9.9"]', 'since = ["7.3"]', "7.3 is the first release of 7.3 and 9.9"),
        ('name = "9.9"', 'name = "7.2"', "row 7.2 is there twice"),
        ('name = "9.9"', 'name = "9.9"\nbefore = "8.0"', "there is no row 8.0 before it"),
    ],
)
def test_a_wrong_row_stops_the_build(added: Path, old: str, new: str, error: str) -> None:
    row = ROW.replace(old, new)
    added.write_text(added.read_text().replace(ROW, row))
    said = generated(added)
    assert said.returncode == 1
    assert error in said.stderr.splitlines()[-1]
