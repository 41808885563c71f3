# SPDX-License-Identifier: Apache-2.0
"""How the event set `zone` records the frees past the per-CPU lists.

Most frees go onto a list, and each costs time if its event is recorded or filtered: a filter of
ftrace takes a record back after it was written. A BPF program looks at the order and at the lock of
the list first, and reports the rare others as events of its own (collector/snapshot/frees.h). Where
BPF is refused, the filter has to do: it does not see locks.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from pagetape.recording.eventsets import CHEAP, ZONE, Plan
from pagetape.recording.exact import ExactSnapshots
from pagetape.tapes import kernel_rows, zone_events

_FREES = ("kmem:mm_page_free", "kmem:mm_page_free_direct")
_PRINTED = "bpf_trace:bpf_trace_printk"

# The kernel switches the event on in the top instance of ftrace when a program that prints is
# loaded: some releases do so a moment later, on a busy machine much later.
_TOP = "events/bpf_trace/bpf_trace_printk/enable"
_SOON_S = 0.5

COST = (
    "the frees of single pages cost 12 to 16 % of the CPU time of a page fault, and frees of pages"
    " whose list is locked are not recorded"
)


def _top_switch() -> Path | None:
    """The switch of the printed event in ftrace's top instance."""
    places = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
    return next((found for place in places if (found := place / _TOP).exists()), None)


def _switch_off(switch: Path, within_s: float = 0) -> None:
    """Switch the event off in the top instance; waits until the kernel has switched it on."""
    until = time.monotonic() + within_s
    with suppress(OSError):
        while switch.read_text().strip() == "0" and time.monotonic() < until:
            time.sleep(0.005)
        switch.write_text("0")


def best_set(*, exact: bool) -> tuple[str, str | None]:
    """The event set of a recorder that always runs: zone, or cheap and why BPF cannot be used.

    `exact`: exact snapshots are wanted, whose programs know the locks of the lists.
    """
    if not exact:
        return CHEAP, "exact snapshots are off"
    snapshots = ExactSnapshots()
    refused = snapshots.refused
    snapshots.close()
    if refused is None and _top_switch() is None:
        refused = "no tracefs"
    return (ZONE, None) if refused is None else (CHEAP, refused)


def prepare(events: Sequence[str], snapshots: ExactSnapshots | None, pageblock_order: int) -> Plan:
    """How to record the events of the set `zone` on this machine, from now on."""
    row = kernel_rows.of_release(platform.release()) or kernel_rows.known()[-1].name
    listed = zone_events.listed_orders(row, pageblock_order)
    switch = _top_switch()
    why = "exact snapshots are off" if snapshots is None else "no tracefs"
    if snapshots is not None and switch is not None:
        was_on = switch.read_text().strip() != "0"
        refused = snapshots.report_frees(listed)
        if refused is None:
            if not was_on:
                _switch_off(switch, _SOON_S)
            undo = None if was_on else partial(_switch_off, switch)
            others = [event for event in events if event not in _FREES]
            return Plan([*others, _PRINTED], undo=undo)
        why = refused
    singles = [order for order in listed if order != pageblock_order]
    past = f"order > {singles[-1]}"
    if pageblock_order in listed:
        past += f" && order != {pageblock_order}"
    return Plan(events, past, f"no BPF program on frees ({why}): ftrace filters them; {COST}")
