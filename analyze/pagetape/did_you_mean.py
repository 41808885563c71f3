# SPDX-License-Identifier: Apache-2.0
"""The known name that a mistyped name resembles."""

import re
from collections.abc import Iterable


def hint(name: str, known: Iterable[str]) -> str:
    """'; did you mean X?' for an error about `name`; empty if no known name is like it."""
    import difflib  # a command without a mistake goes without

    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else ""


# The ways in which errors name an unknown name and then list the known ones.
_LISTED = re.compile(
    r"""['"](?P<name>[^'"]+)['"][^'"]*?"""
    r"(?:\bis not one of|\bthere (?:is|are):?|\bit has|\(columns:)\s+(?P<known>[^()]+)"
)


def added(message: str) -> str:
    """An error with a hint, if it lists known names beside an unknown one that resembles one."""
    found = _LISTED.search(message)
    if found is None or "did you mean" in message.lower():
        return message
    known = [one.strip("' .") for one in found["known"].split(",")]
    return f"{message.rstrip('.')}{hint(found['name'], known)}"
