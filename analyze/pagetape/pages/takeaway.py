# SPDX-License-Identifier: Apache-2.0
"""The head of the page: what matters on each recording, and what each what-if changes."""

from pagetape.answer import markup
from pagetape.asking.comparison import Comparison
from pagetape.asking.phrase import change, predicted
from pagetape.diagnosing.diagnosis import Diagnosis
from pagetape.diagnosing.finding import Finding
from pagetape.pages.section import columns
from pagetape.pages.subject import Subject

METRIC = "fallbacks below pageblock order"


def _finding(found: Finding) -> str:
    more = f"<p>Certainty: {markup(found.certainty)}.</p>" if found.certainty else ""
    more += f"<p>Next: <code>{markup(found.next)}</code></p>" if found.next else ""
    return (
        f"<li><h3><span class='tier {found.severity}'>{markup(found.severity)}</span> "
        f"{markup(found.title)}</h3><p class=said>{markup(found.text)}</p>"
        f"<details><summary>How sure, and next</summary>{more}</details></li>"
    )


def _card(label: str, diagnosis: Diagnosis) -> str:
    items = "".join(map(_finding, diagnosis.findings))
    return (
        f"<div class=takeaway><h3>{markup(label)}</h3><p>{markup(diagnosis.summary)}</p>"
        f"<ol>{items}</ol></div>"
    )


def _what_ifs(found: Comparison) -> str:
    """A sentence per what-if about the main metric."""
    metric = next((m for m in found.metrics if m.name == METRIC), None)
    lines = []
    for side in found.sides:
        if metric is None or side.role != "what-if" or metric.values[side.label] is None:
            continue
        value = predicted(metric.values[side.label], metric.intervals[side.label], None)
        words = f"{side.label}: {value} {METRIC}"
        if side.label in metric.differences:
            words += f"; against {found.references[side.label]}: "
            words += change(metric.differences[side.label])
        lines.append(f"<li>{markup(words)}.</li>")
    return f"<ul class=said>{''.join(lines)}</ul>" if lines else ""


def takeaway(subjects: list[Subject], found: Comparison) -> str:
    known = [(s.label, s.diagnosis) for s in subjects if s.diagnosis]
    cards = "".join(_card(label, diagnosis) for label, diagnosis in known)
    grid = f"{columns(len(known))}{cards}</div>" if cards else ""
    said = _what_ifs(found) + grid
    return f"<section><h2>What matters</h2>{said}</section>" if said else ""
