# SPDX-License-Identifier: Apache-2.0
"""Bindings of the collector: no logic, one exception, Arrow batches out."""

from collections.abc import Callable, Mapping, Sequence
from mmap import mmap
from typing import Any, NamedTuple

class CollectorError(OSError):
    """An error of the collector: `errno` is its kind, `strerror` its message."""

class ArrowBatch:
    """Rows of one table; pyarrow.record_batch() takes it without a copy."""

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

class Source:
    """Events in merged order, as batches of several tables."""

    @property
    def facts(self) -> dict[str, Any]:
        """Facts in the trace itself; None if the trace lacks one.

        kernel (release), host, arch, clock, cpus, page_size, pageblock_order, gfp_bits
        ({name: bit}) and instances (names of the ring buffers, "" is the top one).
        """
    def read(self) -> tuple[str, ArrowBatch] | None:
        """The next (table name, batch), or None at the end. Waits without the GIL."""
    @property
    def progress(self) -> float:
        """Share of the input decoded, 0 to 1."""
    # Rows of the tables of the same name, for the current segment; complete once read() has
    # returned None.
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

class DatPage(NamedTuple):
    """A page of the ring of one CPU in a trace.dat; the instances are numbered as in the file."""

    instance: int
    cpu: int
    offset: int

    @classmethod
    def loading(cls, memory: mmap) -> DatPage | None:
        """The page that a DatReader notes in this memory, or None."""
    @staticmethod
    def clear(memory: mmap) -> None:
        """Make it None."""

class DatReader(Source):
    """A trace.dat file of any version, with all its instances in one order.

    Opening is slow and releases the GIL. A damaged file may end this process: use it by way of
    DatFile. `loading` is writable memory, which may be shared between processes. The pages `bad`
    are left out as damaged.
    """

    def __init__(
        self,
        path: str,
        migratetypes: Sequence[str],
        loading: mmap,
        bad: Sequence[DatPage],
    ) -> None: ...

class Found(NamedTuple):
    """What ForeignReader finds in a file; None where the file lacks it."""

    kind: str  # one of ftrace, trace-cmd report, perf script, perf.data, Perfetto
    kernel: str | None
    host: str | None
    arch: str | None
    clock: str | None
    began: str | None  # wall clock of the first event: UTC, to the second
    command: str | None  # of the recorder
    cpus: int
    counts_loss: bool  # the file would show that events were lost
    overwritten: int | None  # events lost before the first one, of all CPUs
    dropped_chunks: int  # of Perfetto's buffer: overwritten, or lost
    without_cpu: bool
    without_pid: bool
    without_time: bool
    in_us: bool  # no time is finer than a microsecond
    has_stacks: bool
    has_symbols: bool  # names for their addresses
    is_sampled: bool  # perf recorded one event of many ...
    sample_period: int | None  # ... of so many; None: the number varies
    unknown_flag: str | None  # a name in gfp flags that is none

class ForeignReader(Source):
    """The trace file of another tool; its content decides the format.

    The first pass over the file takes long and releases the GIL. `begin` starts the second one; all
    but `found` is for the time after it. A file that shrinks ends this process: use it by way of
    ForeignFile.
    """

    def __init__(self, path: str) -> None: ...
    @property
    def found(self) -> Found: ...
    def begin(
        self,
        migratetypes: Sequence[str],
        groups: Sequence[tuple[str, str]],
        bits: Sequence[str],
    ) -> None:
        """Start decoding with the names of the traced kernel.

        `groups` are names of several gfp flags, as ("GFP_NOIO", "__GFP_DIRECT_RECLAIM|..."). `bits`
        has the flag of each bit of a gfp_t, "" for none.
        """

class SpoolConfig(NamedTuple):
    """Where a Recorder puts raw sub-buffers on their way to the decoder.

    The directory must exist at the start. Its files have no names, except with
    `checkpoint` or `defer`: then the spool outlives a killed recorder. Such a directory must
    be empty at the start; close() adds the rest of a stopped recording, and Spooled reads it.

    read() calls `checkpoint` at least every 2 s of events. By then the caller must have written
    all rows it got, and it stores the bytes for Spooled. When `checkpoint` returns, the spool
    frees everything before it. After a cut the next call belongs to the new segment. With
    `defer` nothing is decoded: read() waits for the end.

    `lock` is a descriptor of that directory, which a guard process inherits with its lock: after a
    kill of this process the guard stores the rest of the rings there, for Spooled.

    The spool takes up to `max_bytes` of the disk (0: no bound). At the bound reading
    pauses until there is room, and the ring loses its oldest events; with `defer` the
    recording ends. In memory it takes up to `memory` bytes (0: by the machine).
    """

    directory: str
    max_bytes: int = 0
    checkpoint: Callable[[bytes], None] | None = None
    defer: bool = False
    lock: int = -1
    memory: int = 0

class Look(NamedTuple):
    """The state of a running recording."""

    events: int  # read, or still in a ring
    lost: int  # overrun, commit overrun and dropped
    waiting: int  # bytes that are not decoded yet
    disturbance: str | None  # by another user, the gravest: a kind of the table `disturbance`
    what: str  # the event that is off, or the new size

class Recorder(Source):
    """A live recording in a tracefs instance of its own; one at a time in a process.

    `events` are "system:event"; `ring_kb` is of each CPU, 0 for one that fits the
    machine; with `stacks`, add_stacks() asks for kernel stacks. `filters` are
    ftrace's, by event. `zone_locks` are the addresses of zones' locks, each with the node and the
    number of the zone on a tape, at most 320: events of other locks have no rows. Decoding
    gives way to the load; with `prompt` it follows the events closely. Create, start(),
    [the load runs], stop(), and read() in another thread or after stop() until it returns
    None. stop() is quick: read() returns the undecoded rest after it. close(), at any time,
    ends everything and leaves nothing behind; a read() in another thread then raises
    CollectorError (ECANCELED).

    Further `facts`: instances (one name), ring_kb, subbuf_kb, and skipped_events,
    the requested events that this kernel lacks. task:task_newtask, task:task_rename
    and cgroup:cgroup_attach_task are recorded too, so that tasks() knows short-lived
    ones.
    lost() has a row for each gap that the kernel marks, and one without times for
    losses that it only counts: events = sum of overrun, commit_overrun and dropped of
    rings(), unless some gap's number is unknown (None).
    """

    def __init__(
        self,
        events: Sequence[str],
        spool: SpoolConfig,
        migratetypes: Sequence[str] = (),
        ring_kb: int = 0,
        stacks: bool = False,
        prompt: bool = False,
        filters: Mapping[str, str] | None = None,
        zone_locks: Sequence[tuple[int, int, int]] = (),
    ) -> None: ...
    def add_stacks(self, event: str, filter: str) -> None:
        """Before start(): the kernel stack of each `event` that passes ftrace's filter; "": all."""

    @property
    def ended(self) -> str:
        """How the recording ended, at its end: "stopped", "spool full" or "disk full"."""
    def close(self, ended: str | None = None) -> None:
        """End everything; a stored spool says that the recording ended with `ended`."""
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def look(self) -> Look:
        """Look at a started recording: reads some files of tracefs for each CPU."""

    # A recording can be cut into segments, while it goes on and without loss:
    #
    #     recorder.hold()      # read() returns nothing later than now...
    #     ts = ...             # ...so that there is time to choose the instant
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

def tracing_dir() -> str:
    """The directory of tracefs, which is mounted if necessary. CollectorError without one."""

def default_ring_kb() -> int:
    """The ring size of each CPU of a Recorder without `ring_kb`."""

def plan(cpus: int, subbuf_bytes: int = ...) -> dict[str, int]:
    """What a Recorder of so many CPUs takes on this machine: `memory` (of its spools, bytes),
    `threads` and `files` (open ones)."""

def memory_limit() -> int:
    """Bytes that this process may use: of the machine, or of a control group with less."""

def small_heap() -> None:
    """Keep the heap of this process small from now on."""

def give_back() -> None:
    """Give back the memory that only the start of a recording needed: free blocks of the heap, and
    the mappings of code, which come back as far as they are used."""

def allow_files(files: int) -> None:
    """Let this process open `files` files besides its usual ones, such as the tables of a tape:
    raises RLIMIT_NOFILE. OSError (EMFILE) if this is not allowed. A Recorder does it for its own
    files."""

class Spooled(Source):
    """The stored spool of a former Recorder: its directory.

    Decodes all, or what follows a checkpoint; then tracepoints(), rings(), lost() and
    tasks() are of the whole recording. Its `facts` are only pageblock_order and gfp_bits:
    the caller must have the others.
    """

    def __init__(
        self, directory: str, migratetypes: Sequence[str] = (), checkpoint: bytes | None = None
    ) -> None: ...
    @property
    def ended(self) -> str:
        """How the recording ended: "killed", or the text of Recorder.ended or close()."""

def look_into_spool(directory: str) -> tuple[int, str]:
    """Undecoded bytes of a stored spool, and how the recording ended, as in Spooled.ended."""

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
