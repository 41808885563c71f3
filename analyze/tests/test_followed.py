# SPDX-License-Identifier: Apache-2.0
"""On every recording at hand, a metric lies in its interval or is marked, never with a verdict."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import followed
import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "analyze/demo"
SHARED = ROOT.parent / "shared/data"
MEMBERS = 4

Run = Callable[..., Any]


@pytest.fixture
def recordings(pagetape: Run, tmp_path: Path) -> Callable[[str], Path]:
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


@pytest.mark.parametrize("policy", [followed.POLICY, "pcp:mode=fixed"])
@pytest.mark.parametrize(
    "name", ["pressure.tape", "server.tape", "guest-6.1-numa2", "guest-6.12-numa2"]
)
def test_no_verdict_on_what_is_not_followed(
    name: str, policy: str, recordings: Callable[[str], Path]
) -> None:
    found = followed.measure(recordings(name), policy, "R0", MEMBERS)
    assert found.wrong == []
    assert len(found.inside) > len(found.not_followed)
    assert "PCP refills" in found.unchecked


def metric(recorded: int | None, **changed: Any) -> dict[str, Any]:
    own = {"median": 5, "low": 4, "high": 9}
    difference = {"value": -2, "percent": -40.0, "low": -3, "high": -1, "shown": True}
    about = {"metric": "fallbacks", "recorded": recorded, "own": own, "scaled": 3.0}
    return about | {"difference": difference, "followed": True} | changed


def test_the_check_finds_what_breaks_the_rule() -> None:
    assert followed.check([metric(5)]).wrong == []
    assert followed.check([metric(41)]).wrong == ["fallbacks"]
    assert followed.check([metric(41, followed=False)]).wrong == ["fallbacks"]
    withheld = {"value": None, "percent": None, "low": None, "high": None, "shown": False}
    given = {"followed": False, "difference": withheld}
    assert followed.check([metric(41, **given)]).wrong == ["fallbacks"]  # scaled
    assert followed.check([metric(41, **given, scaled=None)]).not_followed == ["fallbacks"]
    assert followed.check([metric(41, **given, scaled=None)]).wrong == []
    assert followed.check([metric(None, followed=None)]).unchecked == ["fallbacks"]
