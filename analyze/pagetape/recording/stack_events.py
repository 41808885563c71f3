# SPDX-License-Identifier: Apache-2.0
"""Events whose kernel stacks are recorded: the option --stacks, and its filters for the kernel."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass

from pagetape import conditions
from pagetape.conditions import Condition, RuleError
from pagetape.schemas import GFP_BITS
from pagetape.schemas.tape import TapeError

_EVENTS = {"extfrag": "kmem:mm_page_alloc_extfrag", "alloc": "kmem:mm_page_alloc"}


@dataclass(frozen=True)
class StackEvent:
    """Events whose kernel stack is recorded: `extfrag`, `alloc` or `alloc:CONDITION`."""

    spec: str  # as the user wrote it
    condition: Condition | None = None

    @classmethod
    def parse(cls, spec: str) -> StackEvent:
        """Raises RuleError."""
        event, colon, text = spec.partition(":")
        if event not in _EVENTS:
            raise RuleError(f"'{event}' is not extfrag, alloc or alloc:CONDITION")
        if colon and event == "extfrag":
            raise RuleError("extfrag takes no condition: every fallback has its stack")
        found = cls(spec, conditions.parse(text) if colon else None)
        if found.condition:  # with every flag: what the kernel lacks shows later
            conditions.ftrace(found.condition, {name: bit for bit, name in enumerate(GFP_BITS)})
        return found

    @property
    def needs_allocs(self) -> bool:
        return self.spec != "extfrag"

    @property
    def event(self) -> str:
        return _EVENTS[self.spec.partition(":")[0]]

    def filter(self, gfp_bits: Mapping[str, int]) -> str:
        """For the kernel; `gfp_bits` are its flags, as __GFP_IO. TapeError: it lacks one."""
        bits = {name.removeprefix("__GFP_"): bit for name, bit in gfp_bits.items()}
        try:
            return conditions.ftrace(self.condition, bits) if self.condition else ""
        except RuleError as e:
            raise TapeError(errno.EINVAL, f"--stacks '{self.spec}': {e}") from None
