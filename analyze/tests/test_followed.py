# SPDX-License-Identifier: Apache-2.0
"""On every recording at hand, a metric lies in its interval or is marked, never with a verdict."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pagetape.replaying.engine_run import Progress, silent
from pagetape.replaying.playback import Run, Source
from pagetape.replaying.prediction import predict
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "analyze/demo"
SHARED = ROOT.parent / "shared/data"
MEMBERS = 4


@dataclass
class Found:
    """The metrics of one comparison."""

    inside: list[str] = field(default_factory=list)
    not_followed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)  # without a recorded value
    wrong: list[str] = field(default_factory=list)  # a verdict on one not followed, or none marked


def _inside(metric: Mapping[str, Any]) -> bool | None:
    """Whether the recorded value lies in the own rules' interval, from the numbers alone."""
    own, success = metric["own"], metric.get("success")
    if success and success["recorded"] and success["own"]:
        share = success["own"]["nr"] / success["own"]["of"]
        if success["recorded"]["nr"]:
            return bool(share >= 0.1)
        if share > 0.9:
            return False
    if metric["recorded"] is None or own["low"] is None:
        return None
    return bool(own["low"] <= metric["recorded"] <= own["high"])


def check(metrics: Sequence[Mapping[str, Any]]) -> Found:
    """Sort the metrics of `pagetape replay --json`."""
    found = Found()
    for metric in metrics:
        name, inside = metric["metric"], _inside(metric)
        difference = metric["difference"]
        silent_about = metric["scaled"] is None and (
            difference is None
            or (difference["value"] is difference["percent"] is None and not difference["shown"])
        )
        if metric["followed"] is not inside or (inside is False and not silent_about):
            found.wrong.append(name)
        if inside is None:
            found.unchecked.append(name)
        elif inside:
            found.inside.append(name)
        else:
            found.not_followed.append(name)
    return found


@contextlib.contextmanager
def _bar(_: str) -> Iterator[Progress]:
    yield silent


def measure(path: Path, policy: str) -> Found:
    """The metrics of a what-if of a recording."""
    tape = Tape(path)
    source = Source(tape, inferred(tape), preferences(tape))
    return check(predict(source, Run("auto", (policy,), "R0"), MEMBERS, None, _bar)["metrics"])


@pytest.fixture
def recordings(pagetape: Callable[..., Any], tmp_path: Path) -> Callable[[str], Path]:
    def recording(name: str) -> Path:
        if name.endswith(".tape"):
            return DEMO / name
        source = SHARED / name
        if not source.exists():
            pytest.skip(f"no {source}")
        given = tmp_path / "given"
        given.mkdir()
        for file in source.iterdir():
            if file.suffix == ".zst":
                unpacked = given / file.stem
                subprocess.run(["zstd", "-dq", file, "-o", unpacked], check=True)
            else:
                (given / file.name).write_bytes(file.read_bytes())
        out = tmp_path / f"{name}.tape"
        done = pagetape("import", given / "guest.dat", "--proc", given, "-o", out)
        assert done.status == 0, done.err
        return out

    return recording


@pytest.mark.parametrize("policy", ["nofragment:mode=always", "pcp:mode=fixed"])
@pytest.mark.parametrize(
    "name", ["pressure.tape", "server.tape", "guest-6.1-numa2", "guest-6.12-numa2"]
)
def test_no_verdict_on_what_is_not_followed(
    name: str, policy: str, recordings: Callable[[str], Path]
) -> None:
    found = measure(recordings(name), policy)
    assert found.wrong == []
    assert len(found.inside) > len(found.not_followed)
    assert "PCP refills" in found.unchecked


def metric(recorded: int | None, **changed: Any) -> dict[str, Any]:
    own = {"median": 5, "low": 4, "high": 9}
    difference = {"value": -2, "percent": -40.0, "low": -3, "high": -1, "shown": True}
    about = {"metric": "fallbacks", "recorded": recorded, "own": own, "scaled": 3.0}
    return about | {"difference": difference, "followed": True} | changed


def test_the_check_finds_what_breaks_the_rule() -> None:
    assert check([metric(5)]).wrong == []
    assert check([metric(41)]).wrong == ["fallbacks"]
    assert check([metric(41, followed=False)]).wrong == ["fallbacks"]
    withheld = {"value": None, "percent": None, "low": None, "high": None, "shown": False}
    given = {"followed": False, "difference": withheld}
    assert check([metric(41, **given)]).wrong == ["fallbacks"]  # scaled
    assert check([metric(41, **given, scaled=None)]).not_followed == ["fallbacks"]
    assert check([metric(41, **given, scaled=None)]).wrong == []
    assert check([metric(None, followed=None)]).unchecked == ["fallbacks"]
