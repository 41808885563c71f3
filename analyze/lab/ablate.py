#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Switch rules of inference off, one at a time, and print what each of them pays.

    ablate.py --install DIR [--rule NAME]... [--jobs N] [--json FILE] TAPE...

DIR is an install whose rules can be switched off (replay/run/rules.h), made by

    pip install --no-deps --no-build-isolation -Cbuild-dir=build/rules \
        -Csetup-args=-Dc_args=-DRULES_CAN_BE_OFF --target DIR .

`validate` reads each tape with all rules, and with each rule off. A figure is the change of the
exact share of a decision, in percentage points, when the rule is off: negative where the rule
pays. First over the decisions of all tapes together; then the largest loss and the largest gain
on one tape. FILE gets the counts of each run. Exit status 1 if a run fails.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

RULES_H = Path(__file__).parents[2] / "replay/run/rules.h"
ALL_ON = ""

# The decisions of `validate --json`: its counts, exact counts and unknown counts.
DECISIONS = {
    "pages": ("allocs", "alloc_exact", "alloc_unknown"),
    "zone lock": ("zone_locked", "zone_locked_exact", "zone_locked_unknown"),
    "refill sizes": ("refills", "refill_size_exact", "refill_size_unknown"),
    "drained": ("drained", "drained_exact", "drained_unknown"),
    "drain sizes": ("drains", "drain_size_exact", "drain_size_unknown"),
    "fallbacks": ("extfrag", "extfrag_exact", "extfrag_unknown"),
}

Counts = dict[str, tuple[int, int]]  # decision: how many, how many of them exact


def rules() -> list[str]:
    """The names of the rules, in the order of the header."""
    return re.findall(r"^\tRULE\((\w+)\)", RULES_H.read_text(), re.MULTILINE)


def counts(answer: dict[str, int]) -> Counts:
    """The decisions of one answer of `validate --json`, without the unknown ones."""
    return {
        name: (answer[nr] - answer[unknown], answer[exact])
        for name, (nr, exact, unknown) in DECISIONS.items()
    }


def measure(install: Path, rule: str, tape: Path, cache: str) -> Counts:
    """Validate one tape without `rule`."""
    environment = os.environ | {
        "PYTHONPATH": str(install),
        "PAGETAPE_RULES_OFF": rule,
        "XDG_CACHE_HOME": cache,
    }
    code = "from pagetape.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "validate", tape, "--json"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{tape} without {rule or 'no rule'}: {done.stderr.strip()}")
    return counts(json.loads(done.stdout))


def share(all_counts: Iterable[Counts], decision: str) -> float:
    """The exact share of a decision over several runs, in per cent; NaN without any."""
    pairs = [one[decision] for one in all_counts]
    nr = sum(pair[0] for pair in pairs)
    return 100 * sum(pair[1] for pair in pairs) / nr if nr else float("nan")


def changes(on: dict[str, Counts], off: dict[str, Counts], decision: str) -> dict[str, float]:
    """The change of the share on each tape with at least 20 such decisions."""
    return {
        tape: share([off[tape]], decision) - share([on[tape]], decision)
        for tape in on
        if on[tape][decision][0] >= 20
    }


def table(found: dict[str, dict[str, Counts]]) -> list[str]:
    """The lines to print."""
    on = found[ALL_ON]
    head = "  ".join(f"{name} {share(on.values(), name):.3f}" for name in DECISIONS)
    lines = [f"{len(on)} tapes, all rules on, %: {head}", ""]
    lines.append(f"{'off':18}" + "".join(f"{name:>14}" for name in DECISIONS) + "  one tape")
    for rule, off in found.items():
        if rule == ALL_ON:
            continue
        cells, extremes = "", []
        for name in DECISIONS:
            cells += f"{share(off.values(), name) - share(on.values(), name):+14.3f}"
            alone = changes(on, off, name)
            for pick in (min, max):
                tape = pick(alone, key=lambda t: alone[t], default=None)
                if tape and abs(alone[tape]) >= 0.2:
                    extremes.append(f"{name} {alone[tape]:+.1f} ({tape})")
        lines.append(f"{rule:18}{cells}  {', '.join(dict.fromkeys(extremes))}")
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--install", type=Path, required=True, metavar="DIR")
    parser.add_argument("--rule", action="append", choices=rules(), metavar="NAME")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("tapes", nargs="+", type=Path, metavar="TAPE")
    chosen = parser.parse_args(arguments)
    found: dict[str, dict[str, Counts]] = {}
    with TemporaryDirectory(prefix="ablate-") as cache, ThreadPoolExecutor(chosen.jobs) as pool:
        for rule in (ALL_ON, *(chosen.rule or rules())):
            runs = {
                tape.name: pool.submit(measure, chosen.install, rule, tape, f"{cache}/{rule}")
                for tape in chosen.tapes
            }
            found[rule] = {name: run.result() for name, run in runs.items()}
            print(f"ablate: {rule or 'all rules on'}", file=sys.stderr)
            if chosen.json:
                chosen.json.write_text(json.dumps(found, indent=1) + "\n")
    print(*table(found), sep="\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError) as e:
        print(f"ablate: {e}", file=sys.stderr)
        sys.exit(1)
