# SPDX-License-Identifier: Apache-2.0
"""Presets: names for stacks of policies that belong together.

v5 is the series "Fragmentation avoidance improvements" of November 2018, by patches:
1 tries lower zones before it mixes, 4 boosts watermarks, 5 stalls (never merged); 2 and
3 change no decision. Its base is Linux 4.20: play it with --kernel 4.20, and compare it only with
runs of that row. `pagetape paper nofragment` has the series' own results.
"""

from collections.abc import Iterable

_LOWZONE = "nofragment:mode=lowzone"
_BOOST = "watermark_boost:trigger=every_fallback"

PRESETS: dict[str, tuple[str, ...]] = {
    "v5:1": (_LOWZONE, "watermark_boost:factor=0"),
    "v5:1-4": (_LOWZONE, _BOOST),
    "v5:1-5": (_LOWZONE, _BOOST, "stall:order=4"),
}


def expand(specs: Iterable[str]) -> tuple[str, ...]:
    """The policies, with every preset replaced by its policies."""
    return tuple(policy for spec in specs for policy in PRESETS.get(spec, (spec,)))
