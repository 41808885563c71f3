# SPDX-License-Identifier: Apache-2.0
"""What the kernel has no event for, printed by BPF programs (collector/snapshot/printed.h).

Frees past the per-CPU lists, of the event set `zone`: most frees go onto a list, and each costs
time if its event is recorded or filtered, because a filter of ftrace takes a record back after it
was written. A BPF program looks at the order and at the lock of the list first, and prints the rare
others. Where BPF is refused, the filter has to do: it does not see locks.

The addresses of the zones' locks, by which ftrace filters the events of contention.

Stamps: the state of the per-CPU list and its zone at each refill and drain (table `stamp`).
"""

from __future__ import annotations

import errno
import mmap
import os
import platform
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from pagetape.recording.eventsets import CHEAP, LOCK, RARE, ZONE, Contents, Plan, tracepoints
from pagetape.recording.exact import ExactSnapshots
from pagetape.schemas.tape import TapeError

ON, OFF = "on", "off"  # of stamps; else auto: where BPF can be used

_FREES = ("kmem:mm_page_free", "kmem:mm_page_free_direct")
NO_STAMPS = "no stamps: {}"  # what is said of a recording, with the reason
_PRINTED = "bpf_trace:bpf_trace_printk"

# The kernel switches the event on in the top instance of ftrace when a program that prints is
# loaded: some releases do so a moment later, on a busy machine much later.
_TOP = "events/bpf_trace/bpf_trace_printk/enable"
_SOON_S = 0.5

COST = (
    "the frees of single pages cost 12 to 16 % of the CPU time of a page fault, and frees of pages"
    " whose list is locked are not recorded"
)


def _top_switch() -> Path:
    """The switch of the printed event in ftrace's top instance. OSError without one."""
    from pagetape import _collector

    switch = Path(_collector.tracing_dir(), _TOP)
    if not switch.exists():
        raise TapeError(errno.ENOENT, f"no {switch}: the kernel has no event for what BPF prints")
    return switch


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
    if refused is None:
        try:
            _top_switch()
        except OSError as e:
            refused = str(e)
    return (ZONE, None) if refused is None else (CHEAP, refused)


def _print(
    contents: Contents, snapshots: ExactSnapshots | None, listed: Sequence[int]
) -> tuple[Plan | None, str | None]:
    """Print what the contents ask for, from now on: how, and why not all of it."""
    frees, stamps = contents.event_set == ZONE, contents.stamps != OFF
    if snapshots is None:
        return None, "exact snapshots are off"
    try:
        switch = _top_switch()
    except OSError as e:
        return None, str(e)
    was_on = switch.read_text().strip() != "0"
    token = int.from_bytes(os.urandom(4))
    why = refused = snapshots.print_events(token, listed, frees=frees, stamps=stamps)
    if refused is not None and frees and stamps:
        refused = snapshots.print_events(token, listed, frees=True, stamps=False)
    if not was_on:  # a program that is refused may have switched it on, too
        _switch_off(switch, _SOON_S if refused is None else 0)
    if refused is not None:
        return None, why
    undo = None if was_on else partial(_switch_off, switch)
    ours = {_PRINTED: f'bpf_string ~ "pagetape {token:x} *"'}
    return Plan([*contents.events, _PRINTED], ours, undo=undo), why


def _filtered(listed: Sequence[int], pageblock_order: int) -> Mapping[str, str]:
    """The filter of ftrace for frees past the lists."""
    singles = [order for order in listed if order != pageblock_order]
    past = f"order > {singles[-1]}"
    if pageblock_order in listed:
        past += f" && order != {pageblock_order}"
    return {"kmem:mm_page_free": past}


def _zone_locks(snapshots: ExactSnapshots | None) -> Sequence[tuple[int, int, int]]:
    """The addresses of the zones' locks; TapeError without any."""
    if snapshots is None:
        with closing(ExactSnapshots()) as loaded:
            return _zone_locks(loaded)
    if not (locks := snapshots.zone_locks()):
        why = f"the addresses of the zones' locks are unknown: {snapshots.refused}"
        raise TapeError(errno.ENOTSUP, f"{why}; record without the event set lock")
    return locks


def _with_locks(plan: Plan, locks: Sequence[tuple[int, int, int]]) -> Plan:
    """A plan in which ftrace passes the events of these locks only."""
    ours = " || ".join(f"lock_addr == {address:#x}" for address, _, _ in locks)
    if len(ours) >= mmap.PAGESIZE:  # event_filter_write
        raise TapeError(errno.E2BIG, f"{len(locks)} zones are too many for a filter of ftrace")
    filters = dict(plan.filters) | dict.fromkeys(tracepoints(LOCK), ours)
    return replace(plan, filters=filters, zone_locks=locks)


def prepare(contents: Contents, snapshots: ExactSnapshots | None, pageblock_order: int) -> Plan:
    """How to record the contents on this machine, from now on. TapeError without stamps or
    addresses of locks that have to be."""
    locks = _zone_locks(snapshots) if contents.locks else ()
    plan = _prepare(contents, snapshots, pageblock_order)
    return _with_locks(plan, locks) if locks else plan


def _prepare(contents: Contents, snapshots: ExactSnapshots | None, pageblock_order: int) -> Plan:
    if contents.event_set in RARE:
        return Plan(contents.events)
    frees = contents.event_set == ZONE
    if not frees and contents.stamps == OFF:
        return Plan(contents.events)
    listed: Sequence[int] = ()
    if frees:
        from pagetape.tapes import kernel_rows, zone_events  # loads the engine

        row = kernel_rows.of_release(platform.release()) or kernel_rows.known()[-1].name
        listed = zone_events.listed_orders(row, pageblock_order)
    plan, why = _print(contents, snapshots, listed)
    if why is not None and contents.stamps == ON:
        raise TapeError(errno.ENOTSUP, NO_STAMPS.format(why))
    facts = {}
    if contents.stamps != OFF:  # a short recording may have stamps, and no refill
        facts = {"stamps": "on"} if why is None else {"no_stamps": why}
    if plan is None and frees:
        note = f"no BPF program on frees ({why}): ftrace filters them; {COST}"
        filters = _filtered(listed, pageblock_order)
        return Plan(contents.events, filters, note, facts)
    if plan is None:
        said = None if snapshots is None else NO_STAMPS.format(why)
        return Plan(contents.events, note=said, facts=facts)
    others = [event for event in plan.events if not frees or event not in _FREES]
    return replace(plan, events=others, facts=facts)
