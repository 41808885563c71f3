# SPDX-License-Identifier: Apache-2.0
"""One recording as the command line asks for it: a tape, a series of tapes, or a flight."""

from __future__ import annotations

import errno
import signal
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagetape import answer
from pagetape.recording import proc_record
from pagetape.recording.eventsets import PROC, Contents, tracepoints
from pagetape.recording.memory import Limit, fit
from pagetape.recording.request import Request
from pagetape.recording.rotation import OneTape, Rotation
from pagetape.recording.session import Session, Spooling
from pagetape.recording.status import Status
from pagetape.recording.tape_dir import TapeDir
from pagetape.recording.watch import SIGNAL, Firing, Watch
from pagetape.recording.workload import Workload
from pagetape.schemas import table_file
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import output
from pagetape.tapes.loss import Loss

if TYPE_CHECKING:
    from pagetape.recording.private import Veil


_STACK = 20  # bytes of a stack in the ring, without its addresses


def record(request: Request, status: Status) -> int:
    """Record; returns the exit status. Raises TapeError if the recording ended early."""
    if request.events == PROC:
        return proc_record.record(request, status)
    import_module("pagetape._collector")  # while few files are open: it raises the limit of them
    limit = Limit.of(request.memory)
    taken = fit(request.demand(), limit)
    status.memory = taken.words(limit)
    session = Session(
        Workload(request.argv, request.duration),
        Contents(
            tracepoints(request.events, locks=request.locks),
            request.events,
            request.sample,
            request.stacks,
            request.numa_maps,
            request.stamps,
            request.locks,
        ),
        request.wanted(),
        watch=Watch([trigger for trigger in request.triggers if trigger], request.cooldown),
        spooling=Spooling(
            int(request.spool_max or 0) or None, taken.defer, taken.spools, taken.ring_kb
        ),
        status=status,
    )
    if taken.defer and not request.defer:
        status.warn(f"too little memory to decode: {request.out} is deferred, as by --defer")
    if request.rotate is not None:
        code = _rotate(session, request, request.rotate)
    elif request.ring is not None:
        code = _fly(session, request, request.ring, taken.held)
    else:
        code = _one_tape(session, request, defer=taken.defer)
    if session.ended != "stopped":
        raise TapeError(errno.ENOSPC, f"{request.out}: the recording ended early: {session.ended}")
    if session.inexact:
        what = f"{request.out}: written, but a later snapshot is not exact: {session.inexact}"
        raise request.wanted().refusal(what)
    return code


def _one_tape(session: Session, request: Request, *, defer: bool) -> int:
    """Record one tape; returns the exit status."""
    output.check_free(request.out, replace=request.force)
    veil = _veil(request)
    tape = OneTape(request.out, replace=request.force, defer=defer, veil=veil)
    status = session.run(tape, request.out.absolute().parent)
    if veil:  # it has no spool, whose end puts the others in one file
        output.put_in_one_file(tape.path)
    session.status.say(_saved(tape.path))
    return status


def _veil(request: Request) -> Veil | None:
    """What makes the tapes of a private recording private."""
    if request.private is None:
        return None
    from pagetape.recording.private import Veil  # loads a library of ciphers

    return Veil(request.private)


def _tape_dir(request: Request, status: Status) -> TapeDir:
    """The directory of a series; the names of private tapes do not have the host."""
    return TapeDir(request.out, request.keep, "private" if request.private else None, status.say)


def _rotate(session: Session, request: Request, seconds: float) -> int:
    """Record a new tape every `seconds`; returns the exit status."""
    tape_dir = _tape_dir(request, session.status)
    rotation = Rotation(
        tape_dir, done=lambda path: session.status.say(_saved(path)), veil=_veil(request)
    )
    return session.run(rotation, tape_dir.directory, seconds)


def _fly(session: Session, request: Request, seconds: float, memory: float) -> int:
    """Record into memory. The exit status is 1 if writing a tape failed."""
    from pagetape.recording.flight import Callbacks, Flight

    tape_dir = _tape_dir(request, session.status)
    saved: list[Path] = []
    failures: list[OSError] = []

    def done(path: Path) -> None:
        saved.append(path)
        session.status.say(_saved(path))

    def failed(error: OSError) -> None:
        failures.append(error)
        session.status.warn(f"cannot write the tape: {error.strerror or error}")

    def fire(*_: object) -> None:
        session.requests.fire(Firing(SIGNAL, None, "", time.monotonic_ns()))

    flight_recorder = Flight(
        tape_dir,
        seconds,
        memory,
        Callbacks(full=session.requests.cut, done=done, failed=failed),
        private=request.private,
    )
    signal.signal(signal.SIGUSR1, fire)
    session.status.armed = [*session.watch.specs, "SIGUSR1"]
    status = session.run(flight_recorder, tape_dir.directory, seconds, prompt=True)
    if not saved and not failures:
        session.status.say("pagetape: no trigger fired: no tape was written")
    return status or int(bool(failures))


def _saved(path: Path) -> str:
    """One line about a tape that has all its rows. Nothing of it stays in memory."""
    try:
        return _line(path)
    finally:
        table_file.forget()


def _line(path: Path) -> str:
    tape = Tape(path)
    # Not before: it loads the engine, and a recording should begin at once.
    from pagetape.tapes.info import flight, size, snapshots, spooled, summary

    info = summary(tape)
    if tape.facts.get("deferred"):
        return f"{path}: {spooled(info)}; pagetape import {path} -o NEW.tape decodes it"
    why = f"{flight(info)}; " if flight(info) else ""
    return (
        f"{path}: {why}{answer.amount(info['stored'], 'event')} in {info['duration_s']:.1f} s,"
        f" {size(info)}, snapshots: {snapshots(info)},"
        f" {Loss.of(tape, closed=True)}{_full(info)}{_stacks(tape, info)}"
    )


def _stacks(tape: Tape, info: dict[str, Any]) -> str:
    """What the stacks of a recording cost: their number, and their share of the rings' bytes."""
    if not (found := info["stacks"]) or not found["recorded"]:
        return ""
    import pyarrow.compute as pc

    frames = Counter(tape.table("frame")["stack"].to_pylist())
    used = pc.value_counts(tape.table("stack")["stack"]).to_pylist()
    size = sum(one["counts"] * (_STACK + 8 * frames[one["values"]]) for one in used)
    read = sum(row["bytes"] or 0 for row in tape.rows("ring"))
    share = f", {100 * size / read:.0f} % of the bytes from the rings" if read else ""
    each = info["stored"] / found["recorded"]
    return f"; stacks: {found['recorded']:,}, one for each {each:,.1f} events{share}"


def _full(info: dict[str, Any]) -> str:
    """How long no event could be spooled; what waits in the spool is of the next tape."""
    seconds = info["spool"]["full_s"]
    return f", the spool was full for {seconds:.1f} s" if seconds else ""
