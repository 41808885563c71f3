# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML page about one or more tapes.

All numbers come from reports. The page fetches nothing. Its script only sorts, filters and
enlarges: without it, all tables and pictures are there. Each section shows the tapes beside each
other on a common scale.
"""

from __future__ import annotations

from collections.abc import Sequence

from pagetape import answer
from pagetape.answer import markup
from pagetape.asking import policy_effect
from pagetape.asking.comparison import compare, metrics_of
from pagetape.asking.database import labels
from pagetape.pages import activity, address_map, fallbacks, fragmentation
from pagetape.pages.contents import glossary, with_contents
from pagetape.pages.document import document
from pagetape.pages.section import columns
from pagetape.pages.side_by_side import side_by_side
from pagetape.pages.subject import Subject, opened, subject
from pagetape.pages.takeaway import takeaway
from pagetape.schemas.tape import Tape
from pagetape.tapes.info import summary
from pagetape.tapes.kernel_rows import named

INTERVALS = 140  # of a chart over time


def _events(tables: dict[str, int]) -> str:
    """The number of rows in `event`; a run of a sweep stores only fallbacks."""
    return f"{tables.get('event', 0):,}{' fallbacks' if tables.get('event_count') else ''}"


def _machine(subjects: list[Subject]) -> str:
    cards = []
    for s in subjects:
        info, facts = s.info, s.info["facts"]
        lost = "unknown" if s.side.loss.total is None else f"{s.side.loss.total:,}"
        by_cpu = ", ".join(f"CPU {c}: {answer.cell(n)}" for c, n in s.side.loss.by_cpu.items())
        run = s.side.run
        lines = [
            ("tape", s.label, False),
            (
                "type",
                "a recording"
                if run is None
                else f"a replay: kernel {named(run['kernel'])}, {' + '.join(run['policies'])},"
                f" reclaim {run['reclaim']}",
                False,
            ),
            ("kernel", info["kernel"] or "unknown", False),
            *(("rules", line, True) for line in s.side.kernel_warnings),
            *(("absent", line, True) for line in s.side.absent),
            ("host", " ".join(filter(None, map(facts.get, ("host", "arch")))) or "unknown", False),
            ("CPUs, nodes", f"{answer.cell(info['cpus'])}, {answer.cell(info['nodes'])}", False),
            ("pageblock order", answer.cell(facts.get("pageblock_order")), False),
            ("duration", f"{s.seconds:.3f} s", False),
            ("page events", _events(info["tables"]), False),
            ("events lost", lost + (f" ({by_cpu})" if by_cpu else ""), s.side.loss.total != 0),
        ]
        if s.side.role == "what-if":
            idle = policy_effect.without_choice(s.side.effects)
            every = policy_effect.lines(s.side.effects)
            lines += [("policy", line, line in idle) for line in every]
        if run is not None:
            lines.append(("anomalies", f"{s.side.loss.anomalies:,}", False))
        cards.append(
            "<dl>"
            + "".join(
                f"<dt>{markup(name)}</dt><dd{' class=bad' if bad else ''}>{markup(words)}</dd>"
                for name, words, bad in lines
            )
            + "</dl>"
        )
    return f"<section><h2>The tapes</h2>{columns(len(cards))}{''.join(cards)}</div></section>"


def page(tapes: Sequence[Tape]) -> str:
    """The page's HTML; the first tape is the base of the comparison.

    Raises TapeError for a replay of another recording than the first tape's.
    """
    seconds = max((summary(tape)["duration_s"] for tape in tapes), default=0.0)
    interval_ms = max(round(1000 * seconds / INTERVALS), 1)
    names, subjects = labels(tapes), []
    with opened(tapes[0], interval_ms) as db:
        found = compare(tapes, recorded_metrics=metrics_of(db))
        subjects.append(subject(db, names[0], found.sides[0], interval_ms))
    for tape, name, side in zip(tapes[1:], names[1:], found.sides[1:], strict=True):
        with opened(tape, interval_ms) as db:
            subjects.append(subject(db, name, side, interval_ms))
    # A sample may be later than the last event.
    sampled = [
        row["at_s"] or 0.0
        for s in subjects
        for name in ("samples.rates", "frag.over_time")
        for row in s.answers[name]
    ]
    seconds = max(seconds, interval_ms / 1000, *sampled)
    title = ", ".join(s.label for s in subjects)
    step = interval_ms / 1000
    head = (
        f"<h1>{markup(title)}</h1>"
        "<p>Activity of the Linux page allocator, as recorded and as modelled.</p>"
    )
    body = [
        takeaway(subjects, found),
        _machine(subjects),
        side_by_side(found) if len(subjects) > 1 else "",
        "<main class=one>" if len(subjects) == 1 else "<main>",
        fallbacks.by_migratetype(subjects),
        fallbacks.by_order(subjects),
        fallbacks.by_time(subjects, seconds, step),
        address_map.fallbacks_by_address(subjects, seconds, step),
        activity.traffic(subjects, seconds, step),
        activity.list_lengths(subjects, seconds),
        activity.samples(subjects, seconds),
        fragmentation.free_memory(subjects),
        fragmentation.indices(subjects, seconds),
        fragmentation.pageblocks(subjects),
        fallbacks.stacks(subjects),
        activity.tables(subjects),
        glossary(),
        "</main>",
    ]
    return document(title, [with_contents(head, "".join(body))])
