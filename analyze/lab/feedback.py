#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure the accuracy of the model's own reclaim, and write the page of the results.

    feedback.py [--build DIR] [--work DIR] [--pairs N] [--members N] [--unseen] OUT.md
                [RECORDING...]

Records a load that fragments memory N times each with vm.watermark_boost_factor at 15000 and
at 0, and restores the factor at the end, also after an error. From the first recording of
each setting alone, the model predicts both settings. On the given recordings (tapes,
directories of tapes or of a trace.dat, see fidelity.py) the program plays an ensemble under the
recording's own rules, with recorded reclaim (R0) and with the model's own (R1). The tapes and the
runs stay in the work directory: --pairs 0 uses the existing pairs. Recordings of the corpus's
unseen half are skipped without --unseen.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import feedback_page
import fidelity

from pagetape.asking import interval
from pagetape.asking.comparison import members_of
from pagetape.asking.database import Database
from pagetape.replaying import ensemble, model_error, model_memory, replay_span, sweep
from pagetape.replaying.playback import Run, Source
from pagetape.replaying.validation import inferred, preferences
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes.info import describe

_FACTOR = Path("/proc/sys/vm/watermark_boost_factor")
_SECONDS = 25
_OLD_ROW = "5.10"  # boosts at every fallback

_COUNTS = {
    "passes": ("reclaim", "kswapd_wake"),
    "sleeps": ("reclaim", "kswapd_sleep"),
    "direct_reclaims": ("reclaim", "direct_reclaim_begin"),
    "kcompactd_asked": ("compaction", "wakeup_kcompactd"),
    "kcompactd_wakes": ("compaction", "kcompactd_wake"),
}
_TOTALS = {"passes": "kswapd_passes", "sleeps": "kswapd_sleeps"}


@dataclass(frozen=True)
class Setting:
    """A run of the model, and its name on the results page."""

    name: str
    run: Run


# The metrics of the own rules; from the fallbacks on they have a value under R0 as well.
_METRICS = {
    "passes": "kswapd passes",
    "sleeps": "kswapd sleeps",
    "kcompactd_wakes": "kcompactd runs",
    "direct_reclaims": "direct reclaims",
    "wakeups": "kswapd wakeups",
    "fallbacks": "fallbacks below pageblock order",
    "below_low": "allocs below low everywhere",
    "below_min": "allocs below min everywhere",
    "remote_node": "allocs from another node",
    "lower_zone": "allocs from a lower zone",
}
_BOOSTS = tuple(
    Setting(f"{row} {factor}", Run(row, (f"mainline:boost_factor={factor}",), "R1"))
    for row in ("auto", _OLD_ROW)
    for factor in (15000, 0)
)


@contextmanager
def _boost_factor_restored() -> Iterator[None]:
    found = _FACTOR.read_text()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        _FACTOR.write_text(found)


def record_pairs(pairs: int, build: Path, work: Path) -> None:
    """Record the same load with and without boosts, in turns."""
    (load,) = (load for load in fidelity.LOADS if load.name == "extfrag")
    with _boost_factor_restored():
        for number in range(1, pairs + 1):
            for factor in (15000, 0):
                _FACTOR.write_text(str(factor))
                named = replace(load, seconds=_SECONDS)
                tape = fidelity.record(named, build, work).path
                tape.rename(work / f"boost-{factor}-{number}.tape")


def recorded(tape: Tape) -> dict[str, Any]:
    """The counts of the recording."""
    info = describe(tape)
    columns = ", ".join(
        f"(SELECT count(*) FROM {table} WHERE kind = '{kind}') AS {name}"
        for name, (table, kind) in _COUNTS.items()
    )
    fallbacks = (
        "(SELECT count(*) FROM event, machine WHERE kind = 'alloc_extfrag'"
        " AND fallback_order < pageblock_order) AS fallbacks"
    )
    with Database([tape]) as db:
        (counts,) = db.ask(f"SELECT {columns}, {fallbacks}").objects()
    facts = ("kernel", "duration_s", "stored", "lost", "snapshot")
    return counts | {name: info[name] for name in facts}


def _counts(result: dict[str, Any]) -> dict[str, int]:
    totals = {name: total["value"] for name, total in result["totals"].items()}
    found = {name: totals.get(_TOTALS.get(name, name)) for name in _COUNTS}
    # Replays and recordings have this metric; with the model's error, if measured.
    (below,) = (m for m in result["metrics"] if m["metric"] == "fallbacks below pageblock order")
    return found | {"fallbacks": below["value"], "fallbacks_error": below["model_error"]}


def modelled(tape: Tape, settings: Sequence[Setting], work: Path) -> dict[str, dict[str, int]]:
    """The counts of the model under each setting."""
    if not settings:
        return {}
    runs = work / "runs"
    runs.mkdir(exist_ok=True)
    plan = sweep.plan(tape.path, tape.path.stem, [setting.run for setting in settings], 0)
    failed = plan.failed or sweep.play(
        [case for case in plan.cases if case.result(runs) is None],
        runs,
        jobs=1,
        models=model_memory.most_models(plan.model_bytes, 1),
    )
    if failed:
        raise TapeError(os.EX_DATAERR, failed[0].line())
    found = {}
    for setting, case in zip(settings, plan.cases, strict=True):
        result = case.result(runs)
        assert result is not None
        found[setting.name] = _counts(result)
    return found


def own_rules(tape: Tape, members: int) -> dict[str, dict[str, Any]]:
    """Each count of the recording, and under the tape's own rules with R0 and R1: the members of
    the ensemble, their median and its 80 % interval."""
    source = Source(tape, inferred(tape), preferences(tape))
    found: dict[str, dict[str, Any]] = {name: {} for name in _METRICS}
    recorded_metrics = model_error.recorded_metrics(tape)
    for mode in ("R0", "R1"):
        rows = ensemble.own(source, Run("auto", (), mode), members, tape.path)
        values = members_of(rows).get("own", {})
        kind = interval.kind_of(replay_span.kind(tape), mode)
        for name, metric in _METRICS.items():
            if metric in values:
                made = interval.interval(metric, "events", values[metric], kind)
                found[name][mode] = dataclasses.asdict(made) | {"members": list(values[metric])}
                found[name]["recorded"] = recorded_metrics.get(metric, {}).get("value")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--work", type=Path, default=Path("build/feedback"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--members", type=int, default=ensemble.DEFAULT)
    parser.add_argument("--unseen", action="store_true")
    parser.add_argument("out", type=Path)
    parser.add_argument("recordings", nargs="*", type=Path)
    arguments = parser.parse_args()
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    record_pairs(arguments.pairs, arguments.build, work)
    pairs = {}
    for factor in (15000, 0):
        tapes = sorted(work.glob(f"boost-{factor}-*.tape"))
        for path in tapes:
            print(f"== {path.stem}", flush=True)
            tape = Tape(path)
            settings = _BOOSTS if path == tapes[0] else ()
            pairs[path.stem] = {
                "factor": factor,
                "recorded": recorded(tape),
                "model": modelled(tape, settings, work),
            }
    others = {}
    for path in arguments.recordings:
        for recording in fidelity.given(path, work):
            if recording.half == "unseen" and not arguments.unseen:
                continue
            print(f"== {recording.name}", flush=True)
            tape = Tape(recording.path)
            others[recording.name] = {
                "half": recording.half,
                "recorded": recorded(tape),
                "own": own_rules(tape, arguments.members),
            }
    results = {"pairs": pairs, "others": others}
    (work / "feedback.json").write_text(json.dumps(results, indent=1) + "\n")
    arguments.out.write_text(feedback_page.markdown(pairs, others))
    return 0


if __name__ == "__main__":
    sys.exit(main())
