# SPDX-License-Identifier: Apache-2.0
"""docs/install.md: the keys of each command's JSON that scripts may rely on."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import GOLDEN

Run = Callable[..., Any]

PROMISED: dict[str, dict[str, list[str]]] = tomllib.loads((GOLDEN / "json_keys.toml").read_text())

DEMO = Path(__file__).parents[1] / "demo"

# As the design has them: docs/design.md.
CONTRACT = {
    "info": "events lost duration_s kernel cpus nodes snapshot bytes bytes_per_event",
    "validate": "allocs alloc_exact zone_locked zone_locked_exact refills refill_size_exact "
    "drained drained_exact extfrag extfrag_exact drains drain_size_exact unknown unknowns "
    "inferred_untraced first_divergence end_state",
    "replay": "totals",
    "report": "name columns rows lost anomalies tier",
    "compare": "metrics",
}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


@pytest.fixture
def run_of_small(small: Path, directory: Path, pagetape: Run) -> Path:
    """The first test makes it."""
    out = directory / "run.tape"
    if not out.exists():
        assert pagetape("replay", small, "--policy", "nofragment", "-o", out).status == 0
    return out


def first_row(found: Any) -> dict[str, Any]:
    """The first object of a list, or of an object of objects."""
    row: dict[str, Any] = found[0] if isinstance(found, list) else next(iter(found.values()))
    return row


@pytest.mark.parametrize("name", PROMISED)
def test_no_promised_key_is_missing(
    name: str, small: Path, run_of_small: Path, tmp_path: Path, pagetape: Run
) -> None:
    promised = dict(PROMISED[name])
    words = [
        word.format(tape=small, run=run_of_small, out=tmp_path, demo=DEMO)
        for word in promised.pop("command")
    ]
    found = pagetape(*words, "--json").json
    assert set(promised.pop("keys")) <= set(found)
    for key, columns in promised.items():
        assert set(columns) <= set(first_row(found[key])), key


@pytest.mark.parametrize("name", CONTRACT)
def test_the_contract_is_promised(name: str) -> None:
    assert set(CONTRACT[name].split()) <= set(PROMISED[name]["keys"])


def test_every_command_with_json_has_a_promise() -> None:
    """But those that record or watch this machine, and import, which answer about a tape."""
    from pagetape import cli

    live = {"record", "top", "ab", "import", "html", "install-service"}
    assert set(cli.COMMANDS) - live <= {entry["command"][0] for entry in PROMISED.values()}
