# SPDX-License-Identifier: Apache-2.0
"""The answer of a replay: sentences about a few metrics."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pagetape.asking.headline import METRICS, headlines, sentences

DEMO = Path(__file__).parent / "data/pressure.tape"

Run = Callable[..., Any]

NONE = {"median": None, "low": None, "high": None}
FALLBACKS = {
    "metric": "fallbacks",
    "unit": "events",
    "tier": "A",
    "recorded": 1123,
    "model": 1120,
    "value": 58,
    "own": NONE,
    "difference": None,
} | NONE


def test_a_sentence_has_what_is_known() -> None:
    def sentence(run: str | None = "pcp", **changed: Any) -> str:
        return sentences([FALLBACKS | changed], run)[0]

    assert sentence() == "Fallbacks: 1,123 recorded, 1,120 by the tape's own rules, 58 with pcp"
    assert sentence(recorded=None) == "Fallbacks: 1,120 by the tape's own rules, 58 with pcp"
    assert sentence(model=None) == "Fallbacks: 1,123 recorded, 58 with pcp"
    assert sentence(None) == "Fallbacks: 1,123 recorded, 1,120 by the tape's own rules"
    own = {"median": 1100, "low": 1000, "high": 1200}
    this = {"median": 60.5, "low": 50, "high": 1060}
    said = sentence(own=own, **this)
    assert said.endswith(
        "1,100 [1,000 to 1,200] by the tape's own rules, 60.5 [50 to 1,060] with pcp"
    )
    down = {"value": -1060, "percent": -95.0, "low": -1200, "high": -900, "shown": True}
    down |= {"followed": True}
    assert sentence(difference=down).endswith(": -1,060 (-95.0 %) [-1,200 to -900]")
    assert sentence(difference=down | {"high": 9, "shown": False}).endswith(
        ": no difference shown [-1,200 to +9]"
    )


def test_the_last_line_names_tier_and_interval() -> None:
    assert sentences([FALLBACKS], "pcp")[1:] == ["(tier A; one run, no interval)"]
    found = FALLBACKS | {"own": {"median": 5, "low": 1, "high": 9}, "tier": "B"}
    assert sentences([found], "pcp")[1:] == ["(tier B; median [80 % interval])"]
    assert sentences([], "pcp") == []


def test_replay_ends_with_the_answer(pagetape: Run) -> None:
    command = ("replay", DEMO, "--policy", "nofragment:mode=always")
    lines = pagetape(*command).out.splitlines()
    assert lines[-1] == "(tier B; median [80 % interval])"
    said = {line.split(": ")[0]: line for line in lines[-1 - len(METRICS) : -1]}
    assert list(said) == list(METRICS.values())
    found = pagetape(*command, "--json").json
    assert found["headline"] == headlines(found["metrics"])
    assert list(said.values()) == sentences(found["headline"], f"{command[-1]}, reclaim R1")[:-1]
    own = pagetape("replay", DEMO).out.splitlines()
    assert own[-1 - len(METRICS)].startswith("Fallbacks: 123 recorded, ")
    assert own[-1 - len(METRICS)].endswith(" by the tape's own rules")


def test_counters_are_printed_on_request(small: Path, pagetape: Run) -> None:
    totals = pagetape("replay", small, "--json").json["totals"]
    assert "pcp_hits" in totals
    assert "pcp_hits" not in pagetape("replay", small).out
    text = pagetape("replay", small, "--counters").out
    assert f"pcp_hits  {totals['pcp_hits']['value']:,} A".split() in [
        line.split() for line in text.splitlines()
    ]
