# SPDX-License-Identifier: Apache-2.0
"""The tables of fidelity.py: each recording beside its aims.

Percentages are of known decisions: a decision is unknown if the tape has not yet shown the state
it depends on. The share of unknown decisions leaves out the first tenth of a recording that starts
from /proc. `draws` are the least and most fallbacks of assisted free runs that differ by a few
changes which no event shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from program import table

from pagetape import answer

Result = Mapping[str, Any]

_DECISIONS = {
    "alloc": "pages",
    "zone_locked": "zone lock",
    "refill_size": "refill sizes",
    "drain": "drained",
    "drain_size": "drain sizes",
    "extfrag": "fallbacks",
}
_FREE_RUN = "free run: fallbacks"
_UNKNOWN, _INFERRED = "unknown, %", "inferred per 1,000 events"

# Aims, in per cent: quiet loads, memory pressure, without exact snapshots; the corpus of guests;
# real programs, whose tapes have stamps.
_AIMS: Mapping[str, Mapping[str, float]] = {
    "exact quiet": {
        "pages": 99.99,
        "zone lock": 99.9,
        "refill sizes": 99.5,
        "drained": 99.9,
        "fallbacks": 99.5,
        "free run: pages": 99.0,
        "free run: free blocks": 99.9,
        "free run: pageblocks": 100.0,
    },
    "exact": {
        "pages": 99.9,
        "zone lock": 99.9,
        "refill sizes": 99.5,
        "drained": 99.9,
        "fallbacks": 99.5,
    },
    "proc": {"pages": 99.5, "fallbacks": 99.0},
    "guests exact": {"pages": 99.95, "drained": 99.5, "drain sizes": 97.0, "fallbacks": 99.0},
    "guests proc": {"pages": 99.5, "drained": 98.0},
    "guests lossy": {},
    "programs exact": {"pages": 99.99, "drained": 99.9, "drain sizes": 99.0, "fallbacks": 99.5},
    "programs proc": {},
    "programs lossy": {},
}
# Most unknown decisions, in per cent, by the start; most inferred rows per 1,000 events.
_MOST_UNKNOWN = {"exact": 1.0, "proc": 3.0}
_MOST_INFERRED = 20.0
# The largest error of a sum of fallbacks: in per cent, of the corpus if the record has that many,
# otherwise in events.
_EXTFRAG, _CORPUS_EXTFRAG, _MANY, _CORPUS_FEW = 5.0, 15.0, 100, 10
_PAIR_EVENTS = 100  # fewer fallbacks from one migratetype to another are not listed


def extfrag_margin(recorded: float) -> float:
    """The largest error of a sum of many fallbacks."""
    return _CORPUS_EXTFRAG / 100 * recorded


def _is_close(recorded: int, model: int) -> bool:
    """Whether a sum of fallbacks meets the aim of the corpus."""
    most = extfrag_margin(recorded) if recorded >= _MANY else _CORPUS_FEW
    return abs(model - recorded) <= most


def _sums(result: Result, decision: str) -> tuple[int, int, int]:
    """The numbers of exact, predicted (right or wrong) and unknown decisions."""
    rows = [row for row in result["exactness"] if row["decision"] == decision]
    exact, unknown = (sum(row[name] for row in rows) for name in ("exact", "unknown"))
    return exact, sum(row["nr"] for row in rows) - unknown, unknown


def _unknown(result: Result) -> float:
    """The share of unknown decisions, in per cent; from /proc, after the first tenth."""
    rows = result["exactness"]
    if result["snapshot"] == "proc":
        rows = result["exactness_by_second"]
        rows = [row for row in rows if row["at_s"] >= result["duration_s"] / 10]
    unknown, decisions = (sum(row[name] for row in rows) for name in ("unknown", "nr"))
    return 100 * unknown / decisions if decisions else 0.0


def _end(end: Mapping[str, int] | None) -> list[float | None]:
    """Shares of the free blocks and the pageblocks that are the same at the end."""
    names = ("free_blocks", "pageblocks")
    return [answer.share(end[f"{name}_same"], end[name]) if end else None for name in names]


def _ahead(result: Result) -> dict[str, Any]:
    """One step ahead."""
    row: dict[str, Any] = {}
    for decision, words in _DECISIONS.items():
        exact, known, _ = _sums(result, decision)
        row[words] = [answer.share(exact, known), known]
    row[_UNKNOWN] = _unknown(result)
    row["untraced pages"] = result["validate"].get("inferred_untraced")
    row[_INFERRED] = 1000 * result["inferred"] / max(result["stored"], 1)
    ends = _end(result["validate"].get("end_state"))
    return row | dict(zip(("end: free blocks, %", "end: pageblocks, %"), ends, strict=True))


def _free_run(result: Result) -> dict[str, Any]:
    free, draws = result["free_run"], result["free_run"]["draws"]
    recorded = free["extfrag"]["recorded"]
    blocks, types = _end(free.get("end_state"))
    first = free["first_divergence"]
    return {
        "fallbacks recorded": recorded,
        "assisted": free["extfrag"]["model"],
        "draws": [draws[0], draws[-1]],
        "draws within the aim": sum(_is_close(recorded, draw) for draw in draws),
        "requests only": result["requests_only"]["extfrag"]["model"],
        "pages, %": answer.share(free.get("alloc_exact", 0), free.get("allocs", 0)),
        "end: free blocks, %": blocks,
        "end: pageblocks, %": types,
        "first wrong page after": first["exact_before"] if first else None,
    }


def _class(result: Result) -> str:
    if result["half"]:
        return f"{result['of']} {'lossy' if result['lost'] != 0 else result['snapshot']}"
    if result["snapshot"] != "exact":
        return "proc"
    return "exact quiet" if result["quiet"] else "exact"


def _below(result: Result) -> list[str]:
    """The measures of a recording that are below their aims."""
    of, ahead = _class(result), _ahead(result)
    shares = {words: ahead[words][0] for words in _DECISIONS.values()}
    if "free_run" in result:
        free = _free_run(result)
        shares["free run: pages"] = free["pages, %"]
        shares["free run: free blocks"] = free["end: free blocks, %"]
        shares["free run: pageblocks"] = free["end: pageblocks, %"]
    aims = _AIMS[of]
    found = [name for name, aim in aims.items() if (shares[name] or aim) < aim]
    if result["half"]:
        if aims and ahead[_UNKNOWN] > _MOST_UNKNOWN[result["snapshot"]]:
            found.append(_UNKNOWN)
        if aims and ahead[_INFERRED] > _MOST_INFERRED:
            found.append(_INFERRED)
    if "free_run" not in result:
        return found
    recorded, model = free["fallbacks recorded"], free["assisted"]
    if result["half"]:
        wrong = of.endswith(" exact") and not _is_close(recorded, model)
    else:
        wrong = of != "proc" and 100 * abs(model - recorded) > _EXTFRAG * recorded
    return [*found, _FREE_RUN] if wrong else found


def _by_half(results: Sequence[Result], of: str) -> dict[str, Any]:
    """How many exact and lossless recordings of each half of guests or programs meet each aim."""
    exact, runs = f"{of} exact", any("free_run" in one for one in results)
    aims = _AIMS[exact]
    columns = ["of", "half", "recordings", *(f"{name} >= {aim:g} %" for name, aim in aims.items())]
    columns += [f"unknown <= {_MOST_UNKNOWN['exact']:g} %", f"inferred <= {_MOST_INFERRED:g}"]
    if runs:
        columns += [
            f"assisted free run: fallbacks within {_CORPUS_EXTFRAG:g} %,"
            f" or {_CORPUS_FEW} of fewer than {_MANY}",
            "the same, mean of the draws",
        ]
    rows = []
    for half in ("seen", "unseen"):
        strict = [one for one in results if one["half"] == half and _class(one) == exact]
        if not strict:
            continue
        below = [_below(one) for one in strict]
        names = (*aims, _UNKNOWN, _INFERRED, *([_FREE_RUN] if runs else []))
        row = [
            of,
            half,
            len(strict),
            *(sum(name not in those for those in below) for name in names),
        ]
        if runs:
            drawn = [(_free_run(one), len(one["free_run"]["draws"])) for one in strict]
            row.append(round(sum(run["draws within the aim"] / nr for run, nr in drawn), 1))
        rows.append(row)
    return table(columns, rows)


def _recording(result: Result) -> list[Any]:
    facts = ("name", "half", "words", "kernel", "nodes", "duration_s", "stored", "lost")
    below = ", ".join(_below(result)) if "validate" in result else "not measured"
    return [*(result[fact] for fact in facts), result["snapshot"], below]


def _misses(result: Result) -> list[Any]:
    """By decision, the causes of the misses (`pagetape schema repair`), the most frequent first."""
    causes: dict[str, dict[str, int]] = {}
    for row in result["misses"]:
        found = causes.setdefault(row["decision"], {})
        found[row["cause"]] = found.get(row["cause"], 0) + row["nr"]
    cells: list[str | None] = []
    for decision in _DECISIONS:
        ranked = sorted(causes.get(decision, {}).items(), key=lambda cause: -cause[1])
        cells.append("; ".join(f"{nr:,} {name}" for name, nr in ranked) or None)
    return [
        result["name"],
        *cells,
        result["free_run"]["anomalies"] if "free_run" in result else None,
    ]


def _parting(result: Result) -> list[Any] | None:
    """Where the state of the free run leaves the kernel's, and the first differences."""
    parting = result["free_run"].get("parting") if "free_run" in result else None
    if not parting:
        return None
    until = [
        f"{part} {row:,}" if row else f"{part} never" for part, row in parting["same_until"].items()
    ]
    unlike = "; ".join(map(str.strip, parting["unlike"][:4]))
    return [result["name"], parting["at"], "; ".join(until), unlike]


def tables(results: Sequence[Result]) -> dict[str, Any]:
    """The tables; a recording that was only named stands in the first alone."""
    columns = ("recording", "half", "load and machine", "kernel", "nodes", "length, s", "events")
    measured = [one for one in results if "validate" in one]
    played = [one for one in measured if "free_run" in one]
    of = {name: [one for one in measured if one["of"] == name] for name in ("guests", "programs")}
    pairs = [
        [
            one["name"],
            f"{row['alloc_migratetype']} from {row['fallback_migratetype']}",
            row["recorded"],
            row["model"],
        ]
        for one in played
        for row in one["free_run"]["extfrag"]["by_type"]
        if max(row["recorded"], row["model"]) > _PAIR_EVENTS
    ]
    found = {
        "recordings": table((*columns, "lost", "snapshot", "below aim"), map(_recording, results)),
        "by_half": _by_half(of["guests"], "guests"),
        "programs": _by_half(of["programs"], "programs"),
        "misses": table(
            ("recording", *_DECISIONS.values(), "anomalies of the free run"), map(_misses, measured)
        ),
        "pairs": table(("recording", "fallbacks", "recorded", "free run"), pairs),
        "partings": table(
            ("recording", "first wrong page", "state the same until event", "first differences"),
            filter(None, map(_parting, measured)),
        ),
    }
    for name, those, row in (("ahead", measured, _ahead), ("free_runs", played, _free_run)):
        rows = [{"recording": one["name"]} | row(one) for one in those]
        if rows:
            found[name] = table(list(rows[0]), [list(one.values()) for one in rows])
    return found
