# SPDX-License-Identifier: Apache-2.0
"""The rules of one kernel row by which a request passes a zone's watermark.

schemas/kernels.toml has the features; this module says what they mean for one request.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from pagetape.gfp_names import OLDEST, Flags, facts, number
from pagetape.tapes import kernel_rows


@dataclass(frozen=True)
class Rules:
    """What the watermark check of a row goes by."""

    per_order: bool  # the check is repeated for each order below the request's
    graded: bool  # MIN_RESERVE and NON_BLOCK, not HIGH and HARDER
    has_highatomic: bool
    subtracts_free: bool  # free HIGHATOMIC pages, not the whole reserve
    unboosted: str  # the flag with which a request of order 0 may ignore the boost, or ""
    highatomic_last: bool  # NON_BLOCK requests of order 0 may take HIGHATOMIC pages
    highatomic_needs_high: bool
    last_try_cma: bool  # the last try before an OOM kill may take CMA pages

    def may_wait(self, flags: Flags) -> bool:
        return bool(flags & {"WAIT", "DIRECT_RECLAIM"})


@cache
def of_row(name: str) -> Rules:
    found = kernel_rows.rules(name)
    watermark = found["watermark"]
    unboosted = {"UNBOOSTED_ATOMIC": "ATOMIC", "UNBOOSTED_HIGH": "HIGH"}
    return Rules(
        per_order=watermark == "WATERMARK_PER_ORDER",
        graded=str(watermark).startswith("WATERMARK_GRADED"),
        has_highatomic=found["highatomic"] != "HIGHATOMIC_NONE",
        subtracts_free=watermark == "WATERMARK_GRADED_FREE",
        unboosted=unboosted.get(str(found["unboosted_right"]), ""),
        highatomic_last=bool(found["highatomic_last"]),
        highatomic_needs_high=bool(found["highatomic_needs_high"]),
        last_try_cma=_has("last_try_cma", name),
    )


def _has(rule: str, row: str) -> bool:
    """Whether a row has a rule of schemas/messages.toml."""
    since = next(one["since"] for one in facts("messages")["rule"] if one["name"] == rule)
    first = next(one.since[0] for one in kernel_rows.known() if one.name == row)
    return (number(first) or OLDEST) >= (number(since) or OLDEST)


@dataclass(frozen=True)
class Rights:
    """What a request may do below a watermark, by the rules of a row."""

    high: bool = False  # half of min
    harder: bool = False  # a further quarter
    no_mark: bool = False  # any free page
    spared: bool = False  # the HIGHATOMIC reserve is not subtracted
    highatomic: bool = False  # may take HIGHATOMIC blocks
    cma: bool = False  # may take CMA blocks
    unboosted: bool = False  # the boost of min does not count

    def mark(self, pages: int) -> int:
        """A min watermark less what the request need not leave."""
        if self.no_mark:
            return 0
        if self.high:
            pages -= pages // 2
        if self.harder:
            pages -= pages // 4
        return pages

    @property
    def words(self) -> list[str]:
        if self.no_mark:
            return ["no watermark (a task that frees memory)"]
        found = []
        if self.high:
            found.append("half of min (__GFP_HIGH)")
        if self.harder:
            found.append("a further quarter (may not wait)")
        if self.unboosted:
            found.append("not the boost of min")
        if self.cma:
            found.append("CMA pages (movable)")
        return found


def rights(rules: Rules, flags: Flags, order: int, reclaims: bool) -> Rights:
    """The rights of a request; `reclaims`: its task frees memory itself (PF_MEMALLOC)."""
    spare = "NOMEMALLOC" not in flags
    no_mark = spare and ("MEMALLOC" in flags or reclaims)
    high, waits = "HIGH" in flags, rules.may_wait(flags)
    cma = "MOVABLE" in flags and "RECLAIMABLE" not in flags
    unboosted = not order and bool(rules.unboosted) and rules.unboosted in flags
    if rules.graded:
        non_block = not waits and spare
        highatomic = non_block and high and order > 0
        last = rules.highatomic_last and non_block and (high or not rules.highatomic_needs_high)
        return Rights(
            high=high,
            harder=high and non_block,
            no_mark=no_mark,
            spared=high or non_block or no_mark,
            highatomic=highatomic or (order == 0 and last),
            cma=cma,
            unboosted=unboosted,
        )
    if rules.has_highatomic:
        harder = "ATOMIC" in flags and spare
        return Rights(
            high=high,
            harder=harder,
            no_mark=no_mark,
            spared=harder or no_mark,
            highatomic=harder and order > 0,
            cma=cma,
            unboosted=unboosted,
        )
    harder = not waits and spare and "NO_KSWAPD" not in flags
    return Rights(high=high, harder=harder, no_mark=no_mark, spared=True, cma=cma)
