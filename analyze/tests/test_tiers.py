# SPDX-License-Identifier: Apache-2.0
"""Every predicted number has a tier; a metric that is not modelled is refused with a reason.

Tier A is placement, B depends on feedback. A run that models feedback has no tier A.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matrix
import pytest

from pagetape.asking import query
from pagetape.replaying import NOT_MODELLED
from pagetape.replaying.playback import Run as WhatIf
from pagetape.replaying.playback import play
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]

# What depends on feedback that is only counted where a run has none.
COUNTED_ONLY = {"slowpath_wake_calls", "below_low", "below_min", "failed"}

# Numbers that say how a command went, or what was recorded, not what would have been.
ABOUT_THE_RUN = {"lost", "anomalies", "events", "events_per_s", "made", "reused", "preference"}
ABOUT_THE_RUN |= {"clock", "seeds", "changes"}


@pytest.fixture(scope="module")
def predictions(small: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What-ifs of each tier."""
    place = tmp_path_factory.mktemp("tapes")
    made = {"A": place / "placement.tape", "B": place / "feedback.tape"}
    for tier, reclaim in (("A", "R0"), ("B", "R1")):
        play(Tape(small), WhatIf("auto", ("nofragment:mode=lowzone",), reclaim), made[tier])
    return made


def numbers_without(found: Any, place: str = "") -> Iterator[str]:
    """The numbers of a JSON object that neither they nor what they stand in has a tier for."""
    if isinstance(found, dict):
        if found.get("tier") in ("A", "B"):
            return
        for key, value in found.items():
            if key not in ABOUT_THE_RUN:
                yield from numbers_without(value, f"{place}.{key}")
    elif isinstance(found, list):
        for i, value in enumerate(found):
            yield from numbers_without(value, f"{place}[{i}]")
    elif isinstance(found, int | float) and not isinstance(found, bool):
        yield place


def test_every_report_of_a_prediction_says_its_tier(
    predictions: dict[str, Path], pagetape: Run
) -> None:
    for name in ("extfrag.by_order", "metrics"):
        text = pagetape("report", name, predictions["B"]).out
        assert text.splitlines()[-1].endswith("; tier: B"), name
    known = query.about_tapes()
    for name in matrix.one_of_each(known, lambda name: (known[name].tier, name.partition(".")[0])):
        said = pagetape("report", name, predictions["A"], "--json")
        if f"{name} needs " in said.err:  # events that no replay under R0 has
            continue
        json = said.json
        assert json["tier"] == max(known[name].tier, "A"), name


def test_every_total_of_a_replay_has_its_own_tier(small: Path, pagetape: Run) -> None:
    for reclaim, counted in (("R0", COUNTED_ONLY), ("R1", None), ("R2", None)):
        words = ("replay", small, "--reclaim", reclaim)
        run = pagetape(*words, "--json").json
        tiers = {name: total["tier"] for name, total in run["totals"].items()}
        assert all(
            tier == ("B" if counted is None or name in counted else "A")
            for name, tier in tiers.items()
        )
        assert not list(numbers_without({**run, "tier": None}))
        lines = pagetape(*words, "--counters").out.split("\n\n")[1].splitlines()[1:]
        assert {line.split()[0]: line.split()[-1] for line in lines} == tiers


def test_every_metric_of_a_comparison_has_its_tier(
    small: Path, predictions: dict[str, Path], pagetape: Run
) -> None:
    for tier, tape in predictions.items():
        found = pagetape("compare", small, tape, "--json").json
        assert not list(numbers_without(found))
        tiers = {m["metric"]: m["tier"] for m in found["metrics"]}
        assert set(tiers.values()) == ({"A", "B"} if tier == "A" else {"B"})
        for line in pagetape("compare", small, tape).out.split("\n\n")[0].splitlines()[1:]:
            metric, _unit, its = re.split(r"  +", line)[:3]
            assert its == tiers[metric]
        rows = pagetape("report", "metrics", tape, "--json").json["rows"]
        assert all(row["tier"] == tiers[row["metric"]] for row in rows)


def test_every_run_and_metric_of_a_sweep_has_its_tier(
    small: Path, tmp_path: Path, pagetape: Run
) -> None:
    words = ("sweep", "--reclaim", "{R0,R1}", small, "-o", tmp_path / "out")
    page = tmp_path / "sweep.html"
    metrics = ("--metric", "fallbacks", "--metric", "slow-path wake calls")
    found = pagetape(*words, "--json").json
    assert not list(numbers_without(found))
    for run in found["runs"]:
        tiers = {m["tier"] for m in run["metrics"]}
        assert tiers == ({"B"} if run["reclaim"] == "R1" else {"A", "B"})
    text = pagetape(*words, *metrics, "--html", page).out
    assert "a  fallbacks: events, tier B" in text
    for columns in re.findall(r"<table class=matrix><tr>(.*?)</tr>", page.read_text()):
        assert len(re.findall("<th class=n>", columns)) == columns.count("<span class=tier>tier ")


def test_every_figure_of_the_page_has_its_tier(
    small: Path, predictions: dict[str, Path], tmp_path: Path, pagetape: Run
) -> None:
    page = tmp_path / "page.html"
    assert pagetape("html", small, *predictions.values(), "-o", page).status == 0
    html = page.read_text()
    figures = re.findall(r"<figure>(.*?)</figure>", html, re.DOTALL)
    assert len(figures) > 20
    tier = re.compile(r"<span class=tier>(recorded|tier [AB])</span>")
    assert all(tier.search(figure) for figure in figures)
    seen = {found[1] for f in figures if (found := tier.search(f))}
    assert seen == {"recorded", "tier A", "tier B"}
    loose = re.sub(r"<figure>.*?</figure>", "", html, flags=re.DOTALL)
    tables = re.findall(r"<table>(.*?)</table>", loose, re.DOTALL)
    assert tables and all("<th>tier</th>" in table for table in tables)


@pytest.mark.parametrize(
    "figure",
    ["refaults", "io", "swap", "throughput", "latency", "efficiency", "writeback", "throttling"],
)
def test_a_figure_of_tier_c_is_refused_with_the_reason(
    figure: str, predictions: dict[str, Path], pagetape: Run
) -> None:
    for words in ((), ("--json",)):
        asked = pagetape("report", figure, predictions["B"], *words)
        assert (asked.status, asked.out) == (1, "")
        assert asked.err == f"pagetape: {figure}: not modelled: {NOT_MODELLED[figure]}\n"


def test_a_replay_lists_what_is_not_modelled_without_a_number(
    small: Path, predictions: dict[str, Path], pagetape: Run
) -> None:
    run = pagetape("replay", small, "--reclaim", "R1", "--json").json
    assert run["not_modelled"] == NOT_MODELLED
    text = pagetape("replay", small).out
    assert f"not modelled: {', '.join(NOT_MODELLED)}" in text
    rows = pagetape("report", "metrics", predictions["B"], "--json").json["rows"]
    numbers = [*run["totals"], *(row["metric"] for row in rows)]
    words = {word for name in numbers for word in re.split(r"[_ ,/]", name.lower())}
    assert not words & set(NOT_MODELLED)
