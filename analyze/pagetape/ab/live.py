# SPDX-License-Identifier: Apache-2.0
"""The live part: the command in turns under both values, each run recorded."""

from __future__ import annotations

import errno
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pagetape.ab.journal import Changed, changing
from pagetape.ab.memory import MemoryWatch
from pagetape.ab.plan import Plan, RunOf, check_machine
from pagetape.ab.switch import Host
from pagetape.recording.eventsets import Contents, tracepoints
from pagetape.recording.rotation import OneTape
from pagetape.recording.session import Session, Wanted
from pagetape.recording.status import Status
from pagetape.recording.workload import Workload
from pagetape.schemas.tape import TapeError

_SAMPLE_S = 1.0
_LOOK_S = 1.0

Say = Callable[[str], None]


def _ended(workload: Workload, status: int, what: str) -> None:
    """End the program if a signal ended the workload; raise TapeError if the command failed."""
    if workload.signal == signal.SIGINT:
        raise KeyboardInterrupt
    if workload.signal is not None:
        raise SystemExit(128 + workload.signal)
    if status:
        raise TapeError(
            errno.ECANCELED, f"{what}: the command failed with exit status {status}: no result"
        )


@dataclass(frozen=True)
class Runner:
    """Runs the command of a plan. Tests put another one in its place."""

    argv: tuple[str, ...]
    host: Host

    def warm_up(self, what: str) -> None:
        """Run the command without a recording."""
        workload = Workload(self.argv, None, on_second=True, to_stderr=True)
        with workload.signals(), MemoryWatch(self.host, workload.stop) as memory:
            try:
                workload.start()
                while not workload.wait(_LOOK_S):
                    pass
            finally:
                status = workload.finish()
            memory.check(what)
        _ended(workload, status, what)

    def record(self, path: Path, what: str, prepare: Callable[[], None]) -> None:
        """Record the command into a tape; `prepare` is called right before its first snapshot."""
        workload = Workload(self.argv, None, on_second=True, to_stderr=True)
        session = Session(
            workload,
            Contents(tracepoints("all"), "all", _SAMPLE_S),
            Wanted("auto"),
            status=Status(str(path), quiet=True),
        )
        with MemoryWatch(self.host, workload.stop) as memory:
            status = session.run(OneTape(path), path.absolute().parent, prepare=prepare)
            memory.check(what)
        _ended(workload, status, what)
        if session.ended != "stopped":
            words = f"{path}: the recording ended early: {session.ended}"
            raise TapeError(errno.ENOSPC, words)


def _run(plan: Plan, run: RunOf, changed: Changed, runner: Runner, warm: bool) -> None:
    what = f"run {run.side}-{run.number} ({plan.switch.name}={run.value})"
    if warm:
        changed.set(plan.before)
        runner.warm_up(f"the warm-up of {what}")

    def prepare() -> None:
        changed.set(run.value)
        time.sleep(plan.switch.settle_s)

    runner.record(plan.out / run.tape, what, prepare)
    changed.check()


def record_runs(
    plan: Plan,
    host: Host,
    say: Say,
    done: Callable[[RunOf, float], None],
    runner: Runner | None = None,
) -> None:
    """Record all runs, and restore the setting. `done` is called after each, with its time in s."""
    check_machine(plan, host)
    runner = runner or Runner(plan.argv, host)
    plan.out.mkdir(mode=0o700, exist_ok=True)
    with changing(host, plan.switch, plan.values, say) as changed:
        for number, run in enumerate(plan.runs):
            began = time.monotonic()
            say(f"run {number + 1} of {2 * plan.pairs}: {run.side}, {plan.switch.name}={run.value}")
            _run(plan, run, changed, runner, plan.warms_up(number))
            done(run, time.monotonic() - began)
