# SPDX-License-Identifier: Apache-2.0
"""How long the recorded machine holds its zone locks, for `zone_lock:profile=tape`."""

import errno

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.schemas.tape import Tape, TapeError

_NUMBERS = ("take_ps", "take_block_ps", "give_ps", "give_block_ps")


def _fit(tape: Tape) -> dict[str, int]:
    """The costs in picoseconds per block; the fixed cost of a hold counts as one block."""
    with Database([tape]) as db:
        rows = db.run(query.reports()["zone_lock.fit"]).objects()
    found = {row["what"]: round(1000 * row["net_ns"]) for row in rows}
    return {f"{what}_{part}": ps for what, ps in found.items() for part in ("ps", "block_ps")}


def fitted(tape: Tape, spec: str) -> str:
    """`spec`, with the tape's costs filled in if it is zone_lock with profile=tape.

    Raises TapeError if the tape has too few events for a fit.
    """
    name, _, settings = spec.partition(":")
    given = {setting.partition("=")[0] for setting in settings.split(",")}
    if name != "zone_lock" or "profile=tape" not in settings.split(","):
        return spec
    missing = [number for number in _NUMBERS if number not in given]
    if not missing:
        return spec
    found = _fit(tape)
    unknown = [number for number in missing if number not in found]
    if unknown:
        raise TapeError(
            errno.ENODATA,
            f"{tape.path}: zone_lock:profile=tape: too few refills and drains for a fit; give"
            f" {', '.join(unknown)}",
        )
    return ",".join([spec, *(f"{number}={found[number]}" for number in missing)])
