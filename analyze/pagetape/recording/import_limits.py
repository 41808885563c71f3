# SPDX-License-Identifier: Apache-2.0
"""What an imported file lacks, and for which question: one clause for each thing.

The clauses are facts of the tape. tapes/absent.py shows them under each report, beside what the
events themselves show to be absent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pagetape.answer import amount

if TYPE_CHECKING:
    from pagetape._collector import Found

_OF = {
    "ftrace": "a text of ftrace",
    "trace-cmd report": "a text of trace-cmd report",
    "perf script": "a text of perf script",
    "perf.data": "a perf.data file",
    "Perfetto": "a Perfetto trace",
}


def facts_of(found: Found, machine: dict[str, Any]) -> dict[str, Any]:
    """The facts of a tape that is made from such a file; `machine` has those of --proc."""
    limits = [*_loss(found), *_events(found), *_times(found), *_names(found, machine)]
    if "nodes" not in machine and "migratetypes" not in machine:
        limits.append("no memory state (--proc): free pages, fragmentation and a replay need it")
    made = {"of": _OF[found.kind], "counts_loss": found.counts_loss}
    return {"import": made, "limits": limits}


def _loss(found: Found) -> list[str]:
    if found.overwritten:
        nr = amount(found.overwritten, "event")
        return [f"{nr} before the first one were overwritten: counts are those of the rest"]
    if found.dropped_chunks:
        chunks = amount(found.dropped_chunks, "chunk")
        return [f"Perfetto's buffer overwrote or dropped {chunks}: events are missing, unseen"]
    if not found.counts_loss:
        return ["it does not show lost events: counts are lower limits"]
    return []


def _events(found: Found) -> list[str]:
    limits = []
    if filters := re.findall(r"--filter[= ]'?(.+?)'?(?= -|$)", found.command or ""):
        limits.append(f"recorded with --filter {filters[0]}: other events are absent")
    if found.command and not _is_of_all(found.command.split()):
        limits.append("perf recorded the events of one command or process only (no -a)")
    if found.is_sampled:
        each = f"{found.sample_period:,}" if found.sample_period else "a varying number"
        limits.append(
            f"one event of {each} was recorded: no page has its whole history, and counts are a"
            " sample"
        )
    if found.has_stacks and not found.has_symbols:
        limits.append("its stacks are addresses: the text of perf script has their functions")
    if found.without_cpu:
        limits.append("no CPUs: all events count as CPU 0's, and per-CPU lists are unknown")
    if found.without_pid:
        limits.append("some events have no thread: they count as the idle thread's")
    return limits


def _is_of_all(words: list[str]) -> bool:
    """Whether a command of perf record asks for all processes, or is another command."""
    everything = re.compile(r"-[A-Za-z]*a[A-Za-z]*|--all-cpus|-C.*|--cpu.*")
    return words[1:2] != ["record"] or any(map(everything.fullmatch, words))


def _times(found: Found) -> list[str]:
    if found.without_time:
        return ["its clock counts no time: durations and rates mean nothing"]
    if found.in_us:
        return ["times in microseconds: shorter durations are 0"]
    return []


def _names(found: Found, machine: dict[str, Any]) -> list[str]:
    limits = []
    if "kernel" not in machine and not found.kernel:
        assumed = "a replay guesses its rules"
        if found.kind != "perf.data":  # which has the kernel's formats
            assumed = f"gfp flags are read as the newest kernel's, and {assumed}"
        limits.append(f"no kernel release (--kernel-release): {assumed}")
    if found.unknown_flag:
        limits.append(f"gfp flag {found.unknown_flag} is unknown: requests lack it")
    if found.kind == "Perfetto":
        limits.append("zones are numbered as by 64-bit x86; no percpu_refill, no preempt count")
    if "migratetypes" not in machine:
        limits.append("no names of migratetypes (--proc): 4 and above are read as without CMA")
    return limits
