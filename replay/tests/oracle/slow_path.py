# SPDX-License-Identifier: Apache-2.0
"""What a request does in the slow path while no zone ever has a page for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat

from .kernels import Kernel
from .names import MOVABLE

COSTLY = 3  # orders above it are not worth many turns
ASYNC, LIGHT, FULL = 2, 1, 0  # priorities of compaction
TURNS = 16  # in vain, at most
SUCCESSES = {True: 4, False: 16}  # compactions that made a block for another, by costliness


@dataclass(frozen=True)
class Ask:
    """A request, with the letters of its flags: D may reclaim, K wakes kswapd, I may do I/O,
    N NORETRY, M RETRY_MAYFAIL, T THISNODE."""

    order: int
    migratetype: str
    gfp: frozenset[str]
    pageblock_order: int
    defrag_mode: bool = False


def _script(letters: Sequence[str]) -> Iterator[str]:
    return chain(letters, repeat(letters[-1]))


class Path:
    """The steps of one request. Reclaim and compaction answer from scripts."""

    def __init__(self, kernel: Kernel, ask: Ask, reclaims: str, compactions: str) -> None:
        self.kernel = kernel
        self.ask = ask
        self.reclaims = _script(reclaims)
        self.compactions = _script(compactions)
        self.costly = ask.order > COSTLY
        self.mixes = not ask.defrag_mode
        self.steps: list[str] = []
        self.progress = False
        self.result = ""
        self.in_vain = 0
        self.successes = 0

    def order_of(self, work: str) -> int:
        whole = work in self.kernel.whole_blocks_by and not self.mixes
        if whole and self.ask.migratetype != MOVABLE:
            return max(self.ask.order, self.ask.pageblock_order)
        return self.ask.order

    def step(self, name: str, order: int) -> None:
        self.steps.append(name if order == self.ask.order else f"{name}@{order}")

    def wake(self) -> None:
        if "K" in self.ask.gfp:
            self.steps.append("w")

    def reclaim(self) -> None:
        self.step("r", self.order_of("reclaim"))
        self.progress = next(self.reclaims) == "1"

    def compact(self, priority: int) -> None:
        order = self.order_of("compaction")
        self.result = "K"
        if order and self.may_compact:
            self.step(f"c{priority}", order)
            self.result = next(self.compactions)

    @property
    def may_compact(self) -> bool:
        return self.kernel.compacts and "I" in self.ask.gfp

    def run(self) -> None:
        gfp, kernel = self.ask.gfp, self.kernel
        self.wake()
        if "D" not in gfp:
            return
        priority = LIGHT
        unlike = self.ask.order > 0 and self.ask.migratetype != MOVABLE
        if self.may_compact and (self.costly or unlike):
            self.compact(ASYNC)
            if kernel.first_compaction_is_a_turn:
                if {"N", "T"} <= gfp:
                    return
                priority = ASYNC if "N" in gfp else LIGHT
            elif self.costly and "N" in gfp:
                if self.result in "KD" or "T" in gfp:
                    return
                priority = ASYNC
            self.wake()
        while True:
            self.reclaim()
            self.compact(priority)
            if "N" in gfp or (self.costly and not (self.may_compact and "M" in gfp)):
                return
            if not self.reclaim_again():
                again = self.compaction_again(priority)
                if again is None:
                    if self.mixes:
                        return
                    self.mixes = True
                    self.in_vain = self.successes = 0
                else:
                    priority = again
            self.wake()

    def reclaim_again(self) -> bool:
        """There is always enough to reclaim, but no chunk above order 0 ever. 2.6 counts pages."""
        raised = self.order_of("reclaim") != self.ask.order
        self.in_vain = 0 if self.progress and not self.costly and not raised else self.in_vain + 1
        enough = self.ask.order == 0 or self.kernel.watermark == "2.6"
        return self.progress and self.in_vain <= TURNS and enough

    def reclaim_helps(self) -> bool:
        """Whether reclaim could free what compaction lacks."""
        return True

    def compaction_again(self, priority: int) -> int | None:
        """The priority of the next turn, if compaction is worth one."""
        raised = self.order_of("reclaim") != self.ask.order
        if not (self.progress and self.may_compact and self.order_of("reclaim")):
            return None
        if self.result == "K":
            return None if raised or not self.reclaim_helps() else priority
        if self.result == "S":
            self.successes += 1
            if self.successes <= SUCCESSES[self.costly]:
                return priority
        if priority <= (LIGHT if self.costly else FULL):
            return None
        self.successes = 0
        return priority - 1


def steps(kernel: Kernel, ask: Ask, reclaims: str, compactions: str) -> str:
    """The steps in words: w wakes kswapd, r reclaims, c1 compacts at priority 1; @9 is the order
    if it is not the request's. The scripts have a letter for each answer: 1 or 0 for a reclaim
    that frees pages or none, K, D, C or S for a compaction that is skipped, deferred, complete
    or a success. The last letter repeats."""
    path = Path(kernel, ask, reclaims, compactions)
    path.run()
    return " ".join(path.steps)
