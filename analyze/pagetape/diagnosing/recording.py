# SPDX-License-Identifier: Apache-2.0
"""Lost events, and what the recording cannot show."""

from functools import partial
from typing import NamedTuple

from pagetape.answer import amount
from pagetape.diagnosing.case import Case, of, percent
from pagetape.diagnosing.finding import Finding
from pagetape.diagnosing.thresholds import LOSS, SHORT_TAPE_S
from pagetape.tapes import absent
from pagetape.tapes.disturbance import lines
from pagetape.tapes.kernel_rows import named, warnings_of
from pagetape.tapes.loss import Loss

_finding = partial(Finding, "loss", "Lost events")


class Limit(NamedTuple):
    """One thing that the recording cannot show."""

    what: str
    next: str = ""


def loss(case: Case) -> Finding:
    """The finding about lost events."""
    found = Loss.of(case.tape)
    gaps = case.tape.num_rows("lost")
    read = sum(row["read"] for row in case.tape.rows("ring")) or case.tape.num_rows("event")
    evidence = {
        "lost": found.total,
        "read": read,
        "gaps": gaps,
        "by_cpu": {str(cpu): nr for cpu, nr in found.by_cpu.items()},
        "baseline": 0,
    }
    command = case.command("report", "loss", "T")
    if not read and not gaps:
        return _finding("unknown", "the tape has no events", evidence=evidence)
    if found.total is None:
        return _finding(
            "medium" if gaps or not case.tape.complete else "low",
            "The number of lost events is unknown"
            + (f": the tape has {amount(gaps, 'gap')} (normal is 0)" if gaps else "")
            + ". Every other count is a lower bound.",
            "neither the gaps nor the ring buffer's counters have the number",
            command,
            evidence,
        )
    share = of(found.total, found.total + read)
    evidence["share_percent"] = share
    if not found.total:
        return _finding("none", "no event was lost", evidence=evidence)
    return _finding(
        LOSS.severity(max(share, LOSS.low)),
        f"{amount(found.total, 'event')} are lost ({percent(share)}; normal is 0), on"
        f" {amount(len(found.by_cpu), 'CPU')}. Every other count is a lower bound, and a replay"
        " follows the kernel less exactly.",
        "counted by the ring buffers",
        command,
        evidence,
        LOSS.rank(max(share, LOSS.low)),
    )


def _of_recording(case: Case) -> list[Limit]:
    """The limits of a recording's own making."""
    limits = []
    tables = case.tape.tables
    if "stack" not in tables and case.has("event", "alloc_extfrag") and case.mixing["fallbacks"]:
        words = "no stacks: which kernel code causes fallbacks is unknown"
        limits.append(Limit(words, case.record("--stacks extfrag")))
    hows = [row["how"] for row in case.tape.rows("snapshot")]
    if "exact" not in hows and "mixed" not in hows:
        words = "no exact snapshot: the places of free pages are guesses" if case.zones else ""
        words = words or "no snapshot: free memory and watermarks are unknown"
        limits.append(Limit(words, case.record("--snapshot exact")))
    lacking = [
        words
        for table, kind, words in (
            ("event", "alloc", "allocations"),
            ("event", "free", "frees"),
            ("event", "alloc_zone_locked", "refills of the per-CPU lists"),
            ("event", "pcpu_drain", "drains of the per-CPU lists"),
            ("event", "alloc_extfrag", "fallbacks"),
            ("reclaim", "direct_reclaim_begin", "reclaim"),
            ("compaction", "begin", "compaction"),
        )
        if not case.has(table, kind)
    ]
    if lacking:
        words = f"no events of {', '.join(lacking)}: nothing follows from their absence"
        limits.append(Limit(words, case.record("--events all")))
    limits += [Limit(line) for line in absent.beside_kinds(case.tape)]
    if not case.tape.num_rows("sample"):
        limits.append(Limit("no samples: the state between the snapshots is unknown"))
    elif not case.tape.num_rows("sample") - case.tape.table("sample")["began"].null_count:
        words = "samples with one time for all files: rates and free memory at a sample are unknown"
        limits.append(Limit(words))
    missing = [row for row in case.tape.rows("sample_gap") if row["file"] is None]
    if missing:
        nr, why = sum(row["samples"] for row in missing), sorted({row["why"] for row in missing})
        limits.append(Limit(f"{amount(nr, 'sample')} of /proc missing ({', '.join(why)})"))
    if not any(task["cgroup"] for task in case.tape.rows("task")):
        limits.append(Limit("no cgroups: shares by container are unknown"))
    if case.tape.facts.get("private"):
        limits.append(Limit("names are hashed or dropped: equal hashes are equal names"))
    return limits


def limits(case: Case) -> list[Limit]:
    """What the tape cannot show, most general first, with the command that records it."""
    found = [Limit(line) for line in warnings_of(case.tape)]
    if not case.tape.complete:
        found.append(Limit("the tape is incomplete: its recorder did not end regularly"))
    if case.run is not None:
        kernel, policies = named(case.run["kernel"]), " + ".join(case.run["policies"])
        found.append(
            Limit(
                f"a replay (kernel {kernel}, {policies}, {case.run['reclaim']}): the"
                " findings describe the model, not the machine"
            )
        )
    elif case.seconds < SHORT_TAPE_S:
        words = f"only {case.seconds:.1f} s long: shares of time say little below {SHORT_TAPE_S} s"
        found.append(Limit(words))
    if case.run is None:
        found += _of_recording(case)
    found += [Limit(line) for line in lines(case.tape.rows("disturbance"))]
    return found
