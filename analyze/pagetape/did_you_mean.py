# SPDX-License-Identifier: Apache-2.0
"""The known name that a mistyped name resembles."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def hint(name: str, known: Iterable[str]) -> str:
    """'; did you mean X?' for an error about `name`; empty if no known name is like it."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else ""
