# SPDX-License-Identifier: Apache-2.0
"""Writes docs/fidelity.md from the results of fidelity.py."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from pagetape import answer

Result = dict[str, Any]

_HEAD = """# Fidelity

How accurate is the model? `make fidelity` records loads on the local machine, measures the
model on them and on further recordings (`make fidelity FIDELITY_TAPES=DIR`), and writes this
page. The page shows all results: a result below its aim is **bold**, with its cause below.

Written {date} on Linux {release}; the machine also ran other work.

- *One step ahead* (`pagetape validate`): at every recorded decision of the kernel, the model
  makes its prediction, is scored, and takes over the recorded result. A decision is unknown if
  the tape has not yet shown the state it depends on; percentages exclude unknown decisions.
- *Assisted free run* (`pagetape replay --assisted`): the model gets the requests, and what later
  events prove without an event of their own; it decides everything else. One wrong page causes
  further wrong pages, so the free run measures how long the model follows the kernel. Up to the
  first wrong page, its state is compared with that of `validate`, event by event
  (`pagetape replay --explain`): which part differed first, and which lists differed.

- *Requests only* (`pagetape replay`): the same without the outcomes among the inferred rows, which
  hold only under the recorded policy (`pagetape schema inferred`). What-ifs get these inputs. One
  run is shown here; section Intervals has ensembles of such runs.

An assisted free run gets the activity that later events prove, although no event recorded it. These
are the rows of the table `inferred`, from a first pass of `validate` (`pagetape validate -o`):

- pages taken or freed without an event, before their event, long after it, or past a per-CPU
  list whose lock was taken;
- blocks that compaction isolated, gave back or captured;
- lists that compaction or page reporting rotated, or whose order changed for an unknown reason;
- pageblocks that changed their type, as shown by the list of a later page;
- drains without a cause on the tape;
- the node of a request that began on another CPU or under a memory policy, and left a node with
  memory;
- parameters (high, free_count, alloc_factor, the marks "below high" and of an active kswapd), if
  a refill or a drain showed another value;
- nodes that requests for pages to be written passed over;
- the number of pages in use at the start that were on LRU lists, as far as their frees show it;
  claims depend on it;
- boosts that kswapd had reset, and zone counters that changed on a CPU, if later events show it;
- zone counters that were off by the differences of the CPUs, if a zone close to its mark served a
  request, or was passed over.

The size of an overflow drain is inferred only if no parameter explains it. The model chooses
every page, the pages of every refill and drain, and every fallback. Parameters are not inferred
if a policy splits zones or sets the limits of per-CPU lists.

`exact` is the snapshot read with BPF, in list order. `proc` is the snapshot from /proc, which has
neither list order nor the pages on per-CPU lists.

Free page reporting takes free blocks of at least a pageblock off their lists for a moment, and
makes them MOVABLE (`__isolate_free_page()`, 6.18). No event records the block or the time. If
this is the last change of a pageblock, the pageblock has another type in the model.

Every path that frees pages, including slab pages, passes `__free_pages_prepare()`, which emits
mm_page_free (6.18). A prototype once saw 677 order-3 slab pages of one worker allocated again
with no such event between. In nine later recordings of 6.18, 30,322 allocations of orders 1 to
3, there is no case: of 48 that looked like one, all had been freed in pieces of order 0. The
prototype's observation stays unexplained; its recording was not stored.
"""

# The causes of `pagetape schema repair`, one phrase each.
CAUSES = {
    "untraced_alloc": "pages taken from a per-CPU list without an event (alloc_pages_bulk)",
    "late_alloc": "an event written after that of a later allocation",
    "other_cpu_alloc": "an event of another CPU than the list's",
    "locked_alloc": "an allocation past a locked per-CPU list",
    "locked_free": "a free past a locked per-CPU list",
    "free_undone": "a free that did not reach the allocator",
    "isolated": "a free block isolated by compaction, reporting or offlining",
    "isolated_free": "an isolated block given back",
    "captured": "a page captured by compaction",
    "missed_free": "a page freed without an event",
    "rotated": "a free list in another order",
    "parameter": "a parameter of a per-CPU list or a zone that no event records",
    "drained_elsewhere": "a drain with no cause on the tape",
    "inferred_refill": "a refill with no event",
    "unexplained": "unexplained",
}

_DECISIONS = {
    "alloc": "pages",
    "zone_locked": "zone lock",
    "refill_size": "refill sizes",
    "drain": "drained",
    "extfrag": "fallbacks",
}

# Aims, in per cent, by decision: quiet loads, memory pressure, and without exact snapshots.
_AIMS = {
    "exact quiet": {
        "alloc": 99.99,
        "zone_locked": 99.9,
        "refill_size": 99.5,
        "drain": 99.9,
        "extfrag": 99.5,
        "free alloc": 99.0,
        "free end": 99.9,
        "free types": 100.0,
    },
    "exact": {
        "alloc": 99.9,
        "zone_locked": 99.9,
        "refill_size": 99.5,
        "drain": 99.9,
        "extfrag": 99.5,
    },
    "proc": {"alloc": 99.5, "extfrag": 99.0},
    "corpus exact": {"alloc": 99.95, "drain": 99.5, "drain_size": 97.0, "extfrag": 99.0},
    "corpus proc": {"alloc": 99.5, "drain": 98.0},
    "corpus lossy": {},
}
_EXTFRAG_TOTAL, _EXTFRAG_PAIR, _PAIR_EVENTS = 5.0, 15.0, 100
# Most unknown decisions, in per cent, by the start; most inferred rows per 1,000 events.
_UNKNOWN = {"exact": 1.0, "proc": 3.0}
_INFERRED = 20.0
# Free run of the corpus: the largest error of the sum of fallbacks, in per cent if the record has
# that many, otherwise in events.
_CORPUS_EXTFRAG, _MANY, _CORPUS_FEW = 15.0, 100, 10


_HALVES = {
    "seen": "Seen half",
    "unseen": "Unseen half",
}
_CORPUS = """`make fidelity-guests` records the corpus in virtual machines: a pairwise cover of
kernels, loads, machines, zones, huge pages, memory limits, tuning, cleared pages, kinds of start,
and lost events (`analyze/lab/corpus.toml`). One half was drawn as *unseen* before the first
recording was made (`corpus-recordings.toml`): no one looks at it while the model is changed. The
model is developed on the *seen* half. Percentages are one step ahead, of known decisions; column
"inferred" has rows of the table `inferred` per 1,000 events. The share of unknown decisions
leaves out the first tenth of a recording that starts from /proc.

Column "draws" has the least and the most fallbacks of 16 assisted free runs, each with a few
changes that no event shows (docs/replay.md, ensembles), and how many of the 16 meet the aim. Where
few do, the recording is chaotic: one page more or less decides where hundreds of later pages go,
and the single run meets the aim by chance. The mean of the draws is what a run can be expected to
meet."""
INTERVALS = "## Intervals"  # the section that calibration.py writes
INTERVALS_R1 = "## Intervals under R1"
_AHEAD = ("pages", "drained", "drain sizes", "fallbacks")
_NOT_MEASURED = "not measured"


def _aims(result: Result) -> dict[str, float]:
    if result.get("half"):
        return _AIMS[f"corpus {'lossy' if result['lost'] != 0 else result['snapshot']}"]
    if result["snapshot"] != "exact":
        return _AIMS["proc"]
    return _AIMS["exact quiet" if result["quiet"] else "exact"]


def grid(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _percent(part: int, whole: int, aim: float | None = None) -> str:
    found = answer.share(part, whole)
    if found is None:
        return "-"
    text = f"{found:.3f} %"
    return f"**{text}**" if aim is not None and found < aim else text


def _sums(result: Result, decision: str) -> tuple[int, int, int]:
    """The numbers of exact, predicted (right or wrong) and unknown decisions."""
    rows = [row for row in result["exactness"] if row["decision"] == decision]
    exact, unknown = (sum(row[name] for row in rows) for name in ("exact", "unknown"))
    return exact, sum(row["nr"] for row in rows) - unknown, unknown


def title(result: Result) -> str:
    nodes = f", {answer.amount(result['nodes'], 'node')}" if (result["nodes"] or 1) > 1 else ""
    return f"{result['name']} ({result['validate']['kernel']}{nodes})"


def _recordings(results: Sequence[Result]) -> str:
    rows = [
        [
            result["name"],
            result["words"] or "a recording of another machine",
            str(result["kernel"]),
            str(result["nodes"]),
            f"{result['duration_s']:.1f} s",
            f"{result['stored']:,}",
            answer.cell(result["lost"]),
            result["snapshot"],
        ]
        for result in results
    ]
    columns = ("recording", "load", "kernel", "nodes", "length", "events", "lost", "snapshot")
    return grid(columns, rows)


def _validated(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        aims, end = _aims(result), result["validate"]["end_state"]
        cells = []
        for decision in _DECISIONS:
            exact, known, _ = _sums(result, decision)
            cells.append(f"{_percent(exact, known, aims.get(decision))} of {known:,}")
        ends = ("free_blocks_same", "free_blocks"), ("pageblocks_same", "pageblocks")
        rows.append(
            [
                title(result),
                *cells,
                f"{result['validate']['unknown']:,}",
                f"{result['validate']['inferred_untraced']:,}",
                *(_percent(end[same], end[nr]) if end else "-" for same, nr in ends),
            ]
        )
    columns = ("recording", *_DECISIONS.values(), "unknown", "untraced pages")
    return grid([*columns, "end: free blocks", "end: pageblocks"], rows)


def _off(recorded: int, model: int, aim: float | None) -> str:
    if not recorded:
        return "-" if not model else f"+{model}"
    off = 100 * (model - recorded) / recorded
    return f"**{off:+.1f} %**" if aim is not None and abs(off) > aim else f"{off:+.1f} %"


def _free_runs(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        aims, free = _aims(result), result["free_run"]
        extfrag, end = free["extfrag"], free["end_state"]
        first = free["first_divergence"]
        blocks, types = (
            _percent(end[f"{name}_same"], end[name], aims.get(aim)) if end else "-"
            for name, aim in (("free_blocks", "free end"), ("pageblocks", "free types"))
        )
        rows.append(
            [
                title(result),
                _percent(free["alloc_exact"], free["allocs"], aims.get("free alloc")),
                f"{extfrag['recorded']:,}",
                f"{extfrag['model']:,}",
                _off(extfrag["recorded"], extfrag["model"], _EXTFRAG_TOTAL),
                *_requests_only(result),
                blocks,
                types,
                f"after {first['exact_before']:,} pages" if first else "never",
            ]
        )
    columns = ("recording", "pages", "fallbacks recorded", "assisted", "error")
    columns = (*columns, "requests only", "error")
    return grid([*columns, "end: free blocks", "end: pageblocks", "first wrong page"], rows)


def _requests_only(result: Result) -> list[str]:
    """Fallbacks of the run with requests only, and their error."""
    found = result["requests_only"]["extfrag"]
    return [f"{found['model']:,}", _off(found["recorded"], found["model"], None)]


def _pairs(result: Result) -> str:
    rows = [
        [
            f"{row['alloc_migratetype']} from {row['fallback_migratetype']}",
            f"{row['recorded']:,}",
            f"{row['model']:,}",
            _off(row["recorded"], row["model"], _EXTFRAG_PAIR),
        ]
        for row in result["free_run"]["extfrag"]["by_type"]
        if max(row["recorded"], row["model"]) > _PAIR_EVENTS
    ]
    if not rows:
        return ""
    return "\n\n" + grid(("free run, fallbacks", "recorded", "model", "error"), rows)


def _bold(text: str, wrong: bool) -> str:
    return f"**{text}**" if wrong else text


def _is_strict(result: Result) -> bool:
    return result["snapshot"] == "exact" and result["lost"] == 0


def extfrag_margin(recorded: float) -> float:
    """The largest error of a sum of many fallbacks."""
    return _CORPUS_EXTFRAG / 100 * recorded


def _is_close(recorded: int, model: int) -> bool:
    """Whether a sum of fallbacks meets the aim."""
    most = extfrag_margin(recorded) if recorded >= _MANY else _CORPUS_FEW
    return abs(model - recorded) <= most


def _corpus_free(result: Result) -> list[str]:
    """Fallbacks of the free run: recorded, by the model, the error against its aim, and draws."""
    recorded, model = (result["free_run"]["extfrag"][name] for name in ("recorded", "model"))
    off = _off(recorded, model, None) if recorded >= _MANY else f"{model - recorded:+,}"
    off = _bold(off, _is_strict(result) and not _is_close(recorded, model))
    draws = result["free_run"]["draws"]
    close = sum(_is_close(recorded, draw) for draw in draws)
    return [f"{recorded:,}", f"{model:,}", off, f"{draws[0]:,} to {draws[-1]:,}; {close}"]


def _chance(results: Sequence[Result]) -> float:
    """Recordings whose fallbacks meet the aim, on average over the draws."""
    total = 0.0
    for one in results:
        recorded, draws = one["free_run"]["extfrag"]["recorded"], one["free_run"]["draws"]
        total += sum(_is_close(recorded, draw) for draw in draws) / len(draws)
    return total


def _unknown(result: Result) -> float:
    """The share of unknown decisions, in per cent; from /proc, after the first tenth."""
    rows = result["exactness"]
    if result["snapshot"] == "proc":
        rows = result["exactness_by_second"]
        rows = [row for row in rows if row["at_s"] >= result["duration_s"] / 10]
    unknown, decisions = (sum(row[name] for row in rows) for name in ("unknown", "nr"))
    return 100 * unknown / decisions if decisions else 0.0


def _corpus_row(result: Result) -> list[str]:
    facts = [
        result["name"],
        result["words"],
        str(result["kernel"]),
        f"{result['stored']:,}",
        answer.cell(result["lost"]),
        result["snapshot"],
    ]
    if "validate" not in result:
        return [*facts, _NOT_MEASURED, *["-"] * 11]
    aims = _aims(result)
    cells = []
    for decision in ("alloc", "drain", "drain_size", "extfrag"):
        exact, known, _ = _sums(result, decision)
        cells.append(f"{_percent(exact, known, aims.get(decision))} of {known:,}")
    share = _unknown(result)
    per_event = 1000 * result["inferred"] / max(result["stored"], 1)
    cells.append(_bold(f"{share:.2f} %", bool(aims) and share > _UNKNOWN[result["snapshot"]]))
    cells.append(_bold(f"{per_event:.1f}", bool(aims) and per_event > _INFERRED))
    return [*facts, *cells, *_corpus_free(result), *_requests_only(result)]


def _corpus_met(halves: Mapping[str, Sequence[Result]]) -> str:
    """How many exact and lossless recordings of each half meet each aim."""
    aims = _AIMS["corpus exact"]
    columns = ["half", "recordings"]
    columns += [f"{name} >= {aim:g} %" for name, aim in zip(_AHEAD, aims.values(), strict=False)]
    columns += [
        f"unknown <= {_UNKNOWN['exact']:g} %",
        f"inferred <= {_INFERRED:g}",
        f"assisted free run: fallbacks within {_CORPUS_EXTFRAG:g} %,"
        f" or {_CORPUS_FEW} of fewer than {_MANY}",
    ]
    columns.append("the same, mean of the draws")
    rows = []
    for half, results in halves.items():
        strict = [one for one in results if "validate" in one and _is_strict(one)]
        if strict:
            cells = [[_corpus_row(one)[i] for one in strict] for i in (6, 7, 8, 9, 10, 11, 14)]
            met = [sum(not text.startswith("**") for text in column) for column in cells]
            rows.append([half, str(len(strict)), *map(str, met), f"{_chance(strict):.1f}"])
    return "Recordings with an exact snapshot and without loss that meet each aim:\n\n" + grid(
        columns, rows
    )


def _corpus(half: str, results: Sequence[Result]) -> str:
    """The table of one half of the corpus."""
    columns = ("recording", "load and machine", "kernel", "events", "lost", "snapshot")
    ahead = (*_AHEAD, "unknown", "inferred")
    free = ("fallbacks recorded", "assisted free run", "error", "draws; within the aim")
    free = (*free, "requests only", "error")
    table = grid([*columns, *ahead, *free], map(_corpus_row, results))
    return f"### {_HALVES[half]}\n\n{table}"


def _cause(name: str) -> str:
    return CAUSES.get(name, name)


def _free_run_lacks(result: Result) -> list[str]:
    """Knowledge that a free run of such a recording lacks, and the effect."""
    if result["snapshot"] != "exact":
        return [
            "- Free run: it starts from /proc. What later events do not prove of the free lists,"
            " the per-CPU lists and the types of pageblocks is a guess."
        ]
    if not result["quiet"]:
        return [
            "- Free run: the replay takes the pages of recorded compaction off the free lists, and"
            " moves as many pages out of the recorded pageblocks. After the first wrong page these"
            " hold other pages in the model, and may not become empty. If it then has no block for"
            " a request that the record served, it moves pages to make one: the number of free"
            " pages stays right, their migratetypes do not. Fallbacks come in few bursts, each"
            " from the refill of a list whose type has run out: a hundred free pages of one type"
            " decide whether a burst occurs."
        ]
    return []


def _parting(parting: dict[str, Any]) -> str:
    """The event up to which the free run's state equals the kernel's, and the first differences."""
    earlier = [
        f"{part} until event {row:,}" if row else f"{part} never"
        for part, row in parting["same_until"].items()
        if row != parting["at"]
    ]
    there, unlike = ("; ".join(map(str.strip, parting[name][:4])) for name in ("there", "unlike"))
    return (
        "- Free run, state equal to the kernel's until then"
        + (f", except: {', '.join(earlier)}" if earlier else "")
        + f". First difference of the lists at: {there}. Differences: {unlike}."
    )


def _why(result: Result) -> str:
    """The errors on one recording, as text."""
    lines = []
    if result["lost"] != 0:
        lines.append("- Events were lost: misses after a gap are due to the lost events.")
    misses: dict[str, dict[str, int]] = {}
    for row in result["misses"]:
        causes = misses.setdefault(row["decision"], {})
        causes[row["cause"]] = causes.get(row["cause"], 0) + row["nr"]
    for decision, words in (*_DECISIONS.items(), ("drain_size", "drain sizes")):
        if decision in misses:
            causes = misses[decision]
            ranked = sorted(causes, key=lambda cause: -causes[cause])
            missed = "; ".join(f"{causes[cause]:,} {_cause(cause)}" for cause in ranked)
            lines.append(f"- {words} missed: {missed}.")
    if first := result["validate"]["first_divergence"]:
        lines.append(
            f"- First miss: event {first['at']:,}, {first['decision']}, expected"
            f" {answer.cell(first['expected'])}, got {answer.cell(first['got'])}:"
            f" {_cause(first['cause'])}."
        )
    if first := result["free_run"]["first_divergence"]:
        lines.append(
            f"- Free run, first wrong page: event {first['at']:,}, an order-{first['page_order']}"
            f" {first['migratetype']} page on CPU {first['cpu']}, expected"
            f" {answer.cell(first['expected'])}, got {answer.cell(first['got'])}."
        )
    if parting := result["free_run"].get("parting"):
        lines.append(_parting(parting))
    lines += _free_run_lacks(result)
    if anomalies := result["free_run"]["anomalies"]:
        lines.append(f"- Free run: {answer.amount(anomalies, 'anomaly', 'anomalies')}.")
    return f"### {title(result)}\n\n" + ("\n".join(lines) or "All exact.") + _pairs(result)


def markdown(results: Sequence[Result]) -> str:
    """The page."""
    head = _HEAD.format(date=datetime.now(UTC).date(), release=platform.release())
    parts = [head.rstrip()]
    if others := [result for result in results if not result.get("half")]:
        parts += ["## The recordings", _recordings(others)]
        parts += ["## One step ahead", _validated(others), "## Free run", _free_runs(others)]
    halves = {half: [one for one in results if one.get("half") == half] for half in _HALVES}
    if any(halves.values()):
        parts += ["## The corpus", _CORPUS, _corpus_met(halves)]
        parts += [_corpus(half, those) for half, those in halves.items() if those]
    measured = [result for result in results if "validate" in result]
    parts += ["## Inexact results, and their causes", *map(_why, measured)]
    return "\n\n".join(parts) + "\n"
