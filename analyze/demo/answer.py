# SPDX-License-Identifier: Apache-2.0
"""answer.py OUT - the last lines of the demo, from the JSON that its steps left in OUT."""

import json
import sys
from pathlib import Path
from typing import Any


def live(info: dict[str, Any]) -> str:
    """What was recorded on this machine."""
    lost = info["lost"]["total"] if isinstance(info["lost"], dict) else info["lost"]
    return (
        f"This machine: {info['events'].get('mm_page_alloc', 0):,} allocations in "
        f"{info['duration_s']:.1f} s, {info['events'].get('mm_page_alloc_extfrag', 0):,} "
        f"fallbacks, {'an unknown number of' if lost is None else format(lost, ',')} events lost."
    )


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
        else "no difference shown"
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
        print(live(read("live")))
    print(exact(read("validate")))
    print("\n".join(what_if(read("compare"))))
    pages = " ".join(str(page) for page in sorted(out.absolute().glob("*.html")))
    print(f"Pages: {pages}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
