# SPDX-License-Identifier: Apache-2.0
"""What the shell offers for an unfinished word."""

from pathlib import Path

import pytest
from click.shell_completion import BashComplete, CompletionItem

from pagetape import _replay, cli
from pagetape.asking import query


def offered(args: list[str], incomplete: str) -> list[CompletionItem]:
    shell = BashComplete(cli.pagetape, {}, "pagetape", "_PAGETAPE_COMPLETE")
    return shell.get_completions(args, incomplete)


def words(args: list[str], incomplete: str) -> list[str]:
    return [str(item.value) for item in offered(args, incomplete)]


def test_commands_and_reports() -> None:
    assert words([], "comp") == ["compare", "compact"]
    assert words(["report"], "") == list(query.reports())
    found = words(["report"], "extfrag.")
    assert found and all(name.startswith("extfrag.") for name in found)


@pytest.mark.parametrize("command", ["replay", "sweep"])
def test_policies_and_their_parameters(command: str) -> None:
    args = [command, "x.tape", "--policy"]
    assert words(args, "") == [policy["name"] for policy in _replay.policies(())]
    assert words(args, "nofragm") == ["nofragment"]
    assert words(args, "watermarks:min_f") == ["watermarks:min_free_kbytes="]
    assert words(args, "no_such_policy:") == []
    (one,) = offered(args, "nofragment")
    assert one.help


@pytest.mark.parametrize("args", [["replay", "x.tape", "--kernel"], ["sweep", "--kernel"]])
def test_kernels(args: list[str]) -> None:
    assert words(args, "au") == ["auto"]
    rows = [row["name"] for row in _replay.kernels()]
    assert words(args, "") == ["auto", *rows]
    assert words(["kernels"], "") == rows


@pytest.mark.parametrize("args", [["info"], ["report", "loss"], ["sql"], ["compare", "a.tape"]])
def test_tapes(args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("base.tape", "best.tape", "other.tape", "sub/inner.tape", "notes"):
        Path(name).mkdir(parents=True)
    assert words(args, "b") == ["base.tape", "best.tape"]
    assert words(args, "sub/") == ["sub/inner.tape"]
    assert words(args, f"{tmp_path}/o") == [f"{tmp_path}/other.tape"]
    (path,) = offered(args, "not")
    assert (path.type, path.value) == ("file", "not")  # the shell completes any path
    (path,) = offered(args, "no/such/")
    assert path.type == "file"
