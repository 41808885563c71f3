#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure what kswapd's sleep of 4.10 does to kcompactd, node by node (docs/papers.md).

    kswapd_sleep.py [--work DIR] [--members N] [--again] [TAPE]...

Records a load that asks for high orders in virtual machines whose DMA zone is held back, as on
every machine with 4 GiB and more in its first node. Plays these recordings and the given ones
under the variants of the policy kswapd_sleep. With --again nothing is recorded.
"""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import guest
import recordings
from program import give, parser, run, say, table

from pagetape.replaying import ensemble
from pagetape.replaying.model_memory import model_bytes, most_models
from pagetape.replaying.playback import Playback, Run, Source, made_by
from pagetape.schemas.tape import Tape, Writer

_ROW = "4.20"  # no boosts, so only high orders wake kcompactd
_VARIANTS = ("v4.10", "fixcheck", "keepawake")
_COUNTERS = ("kcompactd_asked", "kswapd_passes", "kswapd_sleeps", "order_resets")

# The reserve of zone DMA is the memory above it in the node, divided by the first value. With 8, a
# node of 256 MiB holds back as much of its DMA zone as one of 8 GiB with 256, the default.
_HELD_BACK = "/proc/sys/vm/lowmem_reserve_ratio=8 256 32 0 0"
_GUESTS = {
    f"held-back-{kernel}": guest.Guest(
        f"{kernel}.*-cloud-amd64",
        "hugetlb+files",
        seconds=30,
        nodes=2,
        mb=256,
        cache=640,
        set=(_HELD_BACK,),
    )
    for kernel in ("5.10", "6.1", "6.12")
}


@dataclass(frozen=True)
class Node:
    """The counters of a node: by variant, one value per member."""

    node: int
    held_back: bool  # one of its zones can never be balanced
    counts: dict[str, dict[str, list[int]]]

    @property
    def wakes(self) -> tuple[list[int], list[int]]:
        """Wakes of kcompactd under v4.10 and under keepawake, by seed."""
        old, new = (self.counts[variant]["kcompactd_asked"] for variant in ("v4.10", "keepawake"))
        return old, new


def _held_back(tape: Tape) -> dict[int, bool]:
    """The nodes with memory, and whether a zone of each has no more pages than its reserve."""
    found: dict[int, bool] = {}
    for zone in tape.rows("zone"):
        if zone["snapshot"] == 0 and zone["managed"]:
            reserve = max(v or 0 for name, v in zone.items() if name.startswith("lowmem_reserve_"))
            held = zone["managed"] <= zone["wmark_high"] + reserve
            found[zone["node"]] = found.get(zone["node"], False) or held
    return found


def _member(source: Source, variant: str, variation: dict[str, Any], path: Path) -> Counter[Any]:
    """The counters of one member, by (node, name)."""
    run = Run(_ROW, (f"kswapd_sleep:variant={variant},kcompactd=kswapd",), "R1")
    with (
        Writer(path, source.tape.facts | {"replay": made_by(source.tape, run)}) as writer,
        Playback(source, run, writer, counted=True, variation=variation) as playback,
    ):
        playback.play(lambda *_: None)
    found: Counter[Any] = Counter()
    for row in Tape(path).rows("counter"):
        found.update({(row["node"], name): row[name] for name in _COUNTERS})
    return found


def measured(tape: Tape, members: int) -> list[Node]:
    """The nodes of a tape, under each variant."""
    source = recordings.source(tape)
    varied = ensemble.variation(tape, source.all_inferred)
    seeds = range(1, members + 1)
    cpus = os.cpu_count() or 1
    models = min(cpus, most_models(model_bytes(tape, ["R1"])))
    with TemporaryDirectory() as work, ThreadPoolExecutor(models) as pool:
        runs = {
            variant: [
                pool.submit(
                    _member,
                    source,
                    variant,
                    {"seed": seed} | varied,
                    Path(work) / f"{variant}-{seed}.tape",
                )
                for seed in seeds
            ]
            for variant in _VARIANTS
        }
        counts = {variant: [run.result() for run in those] for variant, those in runs.items()}
    return [
        Node(
            node,
            held,
            {
                variant: {name: [one[node, name] for one in ones] for name in _COUNTERS}
                for variant, ones in counts.items()
            },
        )
        for node, held in sorted(_held_back(tape).items())
    ]


def record(work: Path) -> None:
    """Record the guests."""
    guest.check_programs()
    with guest.root() as root:
        for name, machine in _GUESTS.items():
            say(f"== {name}")
            guest.record(machine, root, work / f"{name}.tape")


def _spread(values: list[int]) -> list[float]:
    return [median(values), min(values), max(values)]


def _nodes(found: dict[str, list[Node]]) -> dict[str, Any]:
    rows = []
    for name, nodes in found.items():
        for node in nodes:
            old, new = node.wakes
            cells = [_spread(node.counts[variant]["kcompactd_asked"]) for variant in _VARIANTS]
            cells.append(_spread([a - b for a, b in zip(old, new, strict=True)]))
            for column in ("kswapd_passes", "order_resets"):
                cells += [_spread(node.counts[v][column]) for v in ("v4.10", "keepawake")]
            rows.append([name, node.node, "yes" if node.held_back else "no", *cells])
    columns = ("recording", "node", "a zone held back", *_VARIANTS, "difference")
    others = (f"{what}, {v}" for what in ("passes", "order resets") for v in ("v4.10", "keepawake"))
    return table((*columns, *others), rows)


def _never(found: dict[str, list[Node]]) -> dict[str, Any]:
    """What the nodes show on which kcompactd was woken."""
    rows = []
    for held, which in ((True, "with a zone held back"), (False, "without such a zone")):
        nodes = [n for ns in found.values() for n in ns if n.held_back == held and max(n.wakes[1])]
        never = sum(not max(node.wakes[0]) for node in nodes)
        fewer = sum(max(node.wakes[0]) < min(node.wakes[1]) for node in nodes)
        rows.append([which, len(nodes), never, fewer])
    columns = ("nodes on which kcompactd is woken", "nodes", "never under v4.10, by any member")
    return table((*columns, "fewer wakes by every member than by any of keepawake"), rows)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--work", type=Path, default=Path("build/kswapd-sleep"))
    options.add_argument("--members", type=int, default=8)
    options.add_argument("--again", action="store_true")
    options.add_argument("tapes", nargs="*", type=Path)
    arguments = options.parse_args()
    if arguments.members < 1:
        options.error(f"--members {arguments.members}: at least 1")
    given = [path.stem for path in arguments.tapes] + list(_GUESTS)
    twice = [name for name, times in Counter(given).items() if times > 1]
    if twice:
        options.error(f"two recordings are named {twice[0]}; rename one")
    work: Path = arguments.work
    work.mkdir(parents=True, exist_ok=True)
    if not arguments.again:
        record(work)
    found = {}
    for path in (*(work / f"{name}.tape" for name in _GUESTS), *arguments.tapes):
        say(f"== {path.stem}: {arguments.members} members of each variant")
        found[path.stem] = measured(Tape(path), arguments.members)
    give({"nodes": _nodes(found), "never": _never(found)})


if __name__ == "__main__":
    run(main)
