# SPDX-License-Identifier: Apache-2.0
"""One finding: a disease of the page allocator on a tape, or the reason why there is none."""

from dataclasses import dataclass, field
from typing import Any

# From worst to harmless. `none`: examined, and below every threshold. `unknown`: the tape does not
# have what the question needs.
SEVERITIES = ("high", "medium", "low", "none", "unknown")
SHOWN = SEVERITIES[:3]


@dataclass(frozen=True)
class Finding:
    """The answer to one question about a tape.

    `text` is one or two sentences: the number, its share, the baseline, and why it matters. For
    `none` and `unknown` it is the reason. `certainty` says how sure the number is, `next` is the
    next command, `whatif` a replay in which the task asks for single pages, `rank` orders findings
    of one severity: the ratio of the number to its threshold.
    """

    id: str
    title: str
    severity: str
    text: str
    certainty: str = ""
    next: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    rank: float = 0.0
    whatif: str = ""

    @property
    def shown(self) -> bool:
        """The finding is a disease."""
        return self.severity in SHOWN

    def as_json(self) -> dict[str, Any]:
        """The JSON object of the finding."""
        names = ("id", "title", "severity", "text", "certainty", "evidence", "next")
        whatif = {"whatif": self.whatif} if self.whatif else {}
        return {name: getattr(self, name) for name in names} | whatif


def worst_first(findings: list[Finding]) -> list[Finding]:
    """The findings by severity, then by their distance from the threshold."""
    return sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), -f.rank, f.id))
