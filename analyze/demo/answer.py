# SPDX-License-Identifier: Apache-2.0
"""answer.py OUT - the last lines of the demo, from the JSON that its steps left in OUT."""

import json
import sys
from pathlib import Path
from typing import Any

from pagetape.answer import amount
from pagetape.diagnosing.thresholds import MIXING


def live(info: dict[str, Any], diagnosis: dict[str, Any]) -> list[str]:
    """What was recorded on this machine, whether its fallbacks are many, and what ails it."""
    lost = info["lost"]["total"] if isinstance(info["lost"], dict) else info["lost"]
    allocs = info["events"].get("mm_page_alloc", 0)
    return [
        f"This machine: {allocs:,} allocations in {info['duration_s']:.1f} s, "
        f"{'an unknown number of' if lost is None else format(lost, ',')} events lost.",
        fallbacks(info, diagnosis, allocs),
        ill(diagnosis),
    ]


def fallbacks(info: dict[str, Any], diagnosis: dict[str, Any], allocs: int) -> str:
    """The number of fallbacks beside what is normal, by the threshold of `pagetape diagnose`."""
    nr = info["events"].get("mm_page_alloc_extfrag", 0)
    if not nr:
        return "Its fallbacks: none, which is normal."
    said = f"Its fallbacks: {nr:,}, {nr / max(info['duration_s'], 1e-9):.1f} per second"
    if allocs:
        said += f", {1e6 * nr / allocs:.1f} per million allocations"
    questions = (*diagnosis["findings"], *diagnosis["not_shown"])
    found = next(one for one in questions if one["id"] == "mixing")
    evidence = found["evidence"]
    if "harmful" not in evidence:  # the question has no answer here
        return f"{said}. Whether they are many is unknown: {found.get('reason')}."
    said += f"; {evidence['harmful']:,} put a page that cannot move into a MOVABLE pageblock. "
    share = evidence["share_percent"]
    if share is None:
        return f"{said}Whether they are many is unknown: so is the number of these pageblocks."
    severity = MIXING.severity(share)
    return (
        f"{said}{amount(evidence['lasting_blocks'], 'block')} of {evidence['movable_blocks']:,} "
        f"had such a page at the end, {share:.2f} %; normal is 0, and a finding begins at "
        f"{MIXING.low:g} %: they are {'few' if severity == 'none' else f'many ({severity})'}."
    )


def ill(diagnosis: dict[str, Any]) -> str:
    """The findings of `pagetape diagnose`, by title."""
    titles = [f"{one['title']} ({one['severity']})" for one in diagnosis["findings"]]
    return f"Diagnosis of this machine: {'; '.join(titles) if titles else diagnosis['summary']}"


def exact(counts: dict[str, Any]) -> str:
    share = 100 * counts["alloc_exact"] / counts["allocs"]
    return (
        f"The model named {share:.2f} % of {counts['allocs']:,} allocated pages one step ahead, "
        f"and {counts['extfrag_exact']:,} of {counts['extfrag']:,} fallbacks (bundled tape of 6.1)."
    )


def what_if(compared: dict[str, Any]) -> list[str]:
    """Recorded and predicted fallbacks, and the effect of the policy."""
    row = next(row for row in compared["metrics"] if row["metric"] == "fallbacks")
    recorded, policy = list(row["values"])
    difference = row["differences"][policy]
    verdict = (
        f"{difference['value']:+,.0f} ({difference['percent']:+.0f} %) "
        f"[{difference['low']:+,.0f} to {difference['high']:+,.0f}]"
        if difference["shown"]
        else difference["no_verdict"] or "no difference shown"
    )
    return [
        f"Fallbacks: {row['values'][recorded]:,} recorded, {spread(row['own'])} by the kernel's "
        f"rules in the model, {spread(row['intervals'][policy])} with nofragment:mode=always.",
        f"Their difference: {verdict}. Medians and 80 % intervals.",
    ]


def spread(found: dict[str, Any]) -> str:
    return f"{found['median']:,.0f} [{found['low']:,.0f} to {found['high']:,.0f}]"


def main(out: Path) -> None:
    def read(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((out / f"{name}.json").read_text())
        return found

    if (out / "live.json").exists():
        print("\n".join(live(read("live"), read("diagnosis"))))
    print(exact(read("validate")))
    print("\n".join(what_if(read("compare"))))
    pages = " ".join(str(page) for page in sorted(out.absolute().glob("*.html")))
    print(f"Pages: {pages}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
