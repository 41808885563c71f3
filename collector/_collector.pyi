# SPDX-License-Identifier: Apache-2.0
"""Bindings of the collector: no logic, one exception, Arrow batches out."""

from collections.abc import Callable, Sequence
from typing import Any

class CollectorError(OSError):
    """The collector refused: `errno` says what kind of wrong, `strerror` the words."""

class ArrowBatch:
    """Rows of one table; pyarrow.record_batch() takes it without a copy."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

class Source:
    """Events in merged order, as batches of several tables."""

    @property
    def facts(self) -> dict[str, Any]:
        """What the trace itself says; None where it does not.

        kernel (release), host, arch, clock, cpus, page_size, pageblock_order, gfp_bits
        ({name: bit}) and instances (names of the ring buffers, "" is the top one).
        """
    def read(self) -> tuple[str, ArrowBatch] | None:
        """The next (table name, batch), or None at the end. Waits without the GIL."""
    @property
    def progress(self) -> float:
        """Share of the input decoded, 0 to 1."""
    # Rows for the tables of the same name, complete once read() gave None; of a segment,
    # where there are several.
    def tracepoints(self) -> list[dict[str, Any]]: ...
    def rings(self) -> list[dict[str, Any]]: ...
    def spools(self) -> list[dict[str, Any]]: ...
    def lost(self) -> list[dict[str, Any]]: ...
    def tasks(self) -> list[dict[str, Any]]: ...
    def stack(self, number: int) -> list[int]:
        """The addresses of the stack that a row of `stack` names, innermost first."""
    @property
    def kallsyms(self) -> str:
        """The traced kernel's /proc/kallsyms; "" if unknown."""
    @property
    def bad_records(self) -> int:
        """Records and ring pages left out as damaged, complete once read() gave None."""
    def close(self) -> None: ...

class DatFile(Source):
    """A trace.dat file of any version, with all its instances in one order.

    Opening takes long enough to be worth a thread: it goes on without the GIL.
    """

    def __init__(self, path: str, migratetypes: Sequence[str] = ()) -> None: ...

class Recorder(Source):
    """A live recording in a tracefs instance of its own; one at a time in a process.

    `events` are "system:event"; `spool` is a directory for raw sub-buffers on
    their way to the decoder; `ring_kb` is of each CPU, 0 for one that fits the
    machine; `stacks` asks for the kernel stack of each mm_page_alloc_extfrag. Decoding
    gives way to the load; with `prompt` it stays close behind all the same. Create,
    start(), [the load runs], stop(), and read() in another thread or after stop() until
    it gives None. stop() is quick: what is not decoded yet
    comes out of read() after it. close(), at any time, ends all and leaves nothing
    behind; a read() in another thread then raises CollectorError (ECANCELED).

    The directory `spool` must be there at the start. Files in it have no names, unless the
    spool is kept, for a recorder that is killed: with `checkpoint`, or `defer`. Then the
    directory is empty at the start, what a stopped recording still has goes into it at
    close(), and Spooled reads it.

    `checkpoint` is called within read() every 2 s of events or earlier, when the caller has
    come back for what follows; it has then written all rows it was given, and keeps the bytes
    for Spooled. When it returns, the spool forgets what is before. After a cut the next call
    belongs to the new segment. With `defer` nothing is decoded: read() waits for the end.

    The spool takes up to `spool_max` bytes of the disk (0: no bound). At the bound reading
    stops until there is room, and the ring loses its oldest events; with `defer` the
    recording ends.

    Further `facts`: instances (one name), ring_kb, subbuf_kb, and skipped_events,
    those asked for that this kernel does not have. task:task_newtask, task:task_rename
    and cgroup:cgroup_attach_task are recorded too, so that tasks() knows short-lived
    ones.
    lost() has a row for each gap that the kernel tells of, and one without times
    for what it only counts: events = sum of overrun, commit_overrun and dropped of
    rings(), unless some gap's number is unknown (None).
    """

    def __init__(
        self,
        events: Sequence[str],
        spool: str,
        migratetypes: Sequence[str] = (),
        ring_kb: int = 0,
        stacks: bool = False,
        prompt: bool = False,
        *,
        spool_max: int = 0,
        checkpoint: Callable[[bytes], None] | None = None,
        defer: bool = False,
    ) -> None: ...
    @property
    def ended(self) -> str:
        """How, once read() gave None: "stopped", "spool full" or "disk full"."""
    def close(self, ended: str | None = None) -> None:
        """End all; `ended` is for those who find spools that are kept."""
    def start(self) -> None: ...
    def stop(self) -> None: ...

    # A recording can be cut into segments, while it goes on and without loss:
    #
    #     recorder.hold()      # nothing later than now is given out...
    #     ts = ...             # ...so that there is time to find the right instant
    #     recorder.cut(ts)     # the segment ends after the last event up to ts
    #
    # The reader gets None at the end of each segment, asks for its tracepoints(), rings(),
    # lost() and tasks(), and goes on with next(). Column `at` counts within the segment.
    def hold(self) -> None:
        """Begin a cut; CollectorError (EBUSY) while an earlier one has not been reached."""
    def cut(self, ts: int) -> None:
        """End the segment at `ts` (trace clock, ns), which is not before hold()."""
    def next(self) -> bool:
        """After read() gave None: go on with the next segment, or False if there is none."""

def default_ring_kb() -> int:
    """What a Recorder without `ring_kb` takes for each CPU."""

class Spooled(Source):
    """What a recording left in its spool: the directory of a Recorder that kept it.

    Decodes all, or what follows a checkpoint; then tracepoints(), rings(), lost() and
    tasks() are of the whole recording. Its `facts` are only pageblock_order and gfp_bits:
    the others are for the caller to know.
    """

    def __init__(
        self, directory: str, migratetypes: Sequence[str] = (), checkpoint: bytes | None = None
    ) -> None: ...
    @property
    def ended(self) -> str:
        """How: "killed", or as Recorder.ended or Recorder.close() said."""

def look_into_spool(directory: str) -> tuple[int, str]:
    """Of a spool that is kept: bytes that wait, and how the recording ended, as Spooled.ended."""

def free_blocks(
    kpageflags: str,
    zones: Sequence[tuple[int, int, int, int]],
    pageblock_order: int,
    max_order: int,
) -> tuple[ArrowBatch, ArrowBatch]:
    """Rows of (block_guess, pageblock) from a kpageflags file (live, or a copy).

    `zones` are (node, zone number, start_pfn, spanned). Columns snapshot and ts
    are 0: the caller sets them.
    """
