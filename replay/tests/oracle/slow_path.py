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
SPINS = 256  # for a whole block, at most: no other task makes one meanwhile
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
        self.spins = 0

    @property
    def order(self) -> int:
        """The order of reclaim and compaction."""
        whole = self.kernel.defrag_raises and not self.mixes
        if whole and self.ask.migratetype != MOVABLE:
            return max(self.ask.order, self.ask.pageblock_order)
        return self.ask.order

    @property
    def raised(self) -> bool:
        """Whether turns have the limits of a raised order."""
        return self.kernel.defrag_raises_turns and self.order != self.ask.order

    def step(self, name: str, order: int) -> None:
        self.steps.append(name if order == self.ask.order else f"{name}@{order}")

    def wake(self) -> None:
        if "K" in self.ask.gfp:
            self.steps.append("w")

    def reclaim(self) -> None:
        self.step("r", self.order)
        self.progress = next(self.reclaims) == "1"

    def compact(self, priority: int) -> None:
        self.result = "K"
        if self.order and self.may_compact:
            self.step(f"c{priority}", self.order)
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
        hurried = "N" in gfp
        unlike = self.ask.order > 0 and self.ask.migratetype != MOVABLE
        if self.may_compact and (self.costly or unlike):
            self.compact(ASYNC)
            if kernel.first_compaction_is_a_turn:
                if {"N", "T"} <= gfp:
                    if not self.asks_again:
                        return
                    hurried = False
                priority = ASYNC if hurried else LIGHT
            elif self.costly and "N" in gfp:
                if self.result in "KD" or "T" in gfp:
                    return
                priority = ASYNC
            self.wake()
        while True:
            self.reclaim()
            self.compact(priority)
            if hurried and self.asks_again:
                hurried, priority = False, LIGHT
                self.wake()
                continue
            if hurried or (self.costly and not (self.may_compact and "M" in gfp)):
                return
            self.spins += self.order != self.ask.order
            spent = self.spins > SPINS and not self.mixes
            if spent or not self.reclaim_again():
                again = None if spent else self.compaction_again(priority)
                if again is None:
                    if self.mixes:
                        return
                    if self.raised:
                        self.in_vain = self.successes = 0
                    self.mixes = True
                else:
                    priority = again
            self.wake()

    @property
    def asks_again(self) -> bool:
        """Whether the caller of a small request that may not mix asks again, without N."""
        return not self.costly and not self.mixes

    def reclaim_again(self) -> bool:
        """There is always enough to reclaim, but no chunk above order 0 ever. 2.6 counts pages."""
        fresh = self.progress and not self.costly and not self.raised
        self.in_vain = 0 if fresh else self.in_vain + 1
        enough = self.ask.order == 0 or self.kernel.watermark == "2.6"
        return self.progress and self.in_vain <= TURNS and enough

    def reclaim_helps(self) -> bool:
        """Whether reclaim could free what compaction lacks."""
        return True

    def compaction_again(self, priority: int) -> int | None:
        """The priority of the next turn, if compaction is worth one."""
        if not (self.progress and self.may_compact and (self.ask.order or self.raised)):
            return None
        if self.result == "K":
            return None if self.raised or not self.reclaim_helps() else priority
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
