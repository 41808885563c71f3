# SPDX-License-Identifier: Apache-2.0
"""pagetape gfp: the flags of a gfp mask, by era of kernels."""

from __future__ import annotations

from typing import Any

import click

from pagetape import answer
from pagetape.commands import options


class _Mask(click.ParamType[int]):
    """A mask in hexadecimal, as in a message of the kernel."""

    name = "mask"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            found = int(str(value).strip(), 16)
        except ValueError:
            found = -1
        if not 0 <= found < 1 << 32:
            self.fail(f"'{value}' is no gfp mask (example: 0x2084020)", param, ctx)
        return found


@click.command("gfp")
@click.argument("mask", type=_Mask())
@options.json
def command(mask: int, as_json: bool) -> None:
    """List the flags of a gfp mask, by era of kernels.

    The bits of a mask changed with releases. The command decodes it by the bits of each era, and
    marks the eras whose kernels have usual requests with such a mask.

    \b
    Example:
      pagetape gfp 0x2084020
      pagetape gfp 0xcc0 --json
    """
    from pagetape.explaining import gfp

    found = [_era(era, mask) for era in gfp.eras()]
    if as_json:
        answer.emit({"mask": hex(mask), "eras": found})
        return
    columns = ("kernels", "usual", "flags", "bits without a name")
    rows = [
        (
            f"{one['since']} to {one['before']}" if one["before"] else f"{one['since']} and later",
            one["usual"],
            "|".join(one["gfp"]) or "none",
            one["unknown"],
        )
        for one in found
    ]
    answer.say(answer.table(columns, rows))


def _era(era: Any, mask: int) -> dict[str, Any]:
    from pagetape.explaining import gfp

    flags, unknown = era.flags(mask)
    later = [one for one in gfp.eras() if one.first > era.first]
    return {
        "since": era.since,
        "before": f"before {later[0].since}" if later else None,
        "usual": era in gfp.plausible(mask),
        "gfp": gfp.names(flags, era.first),
        "flags": sorted(flags),
        "unknown": hex(unknown) if unknown else None,
        "sure": era.sure,
    }
