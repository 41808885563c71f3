# SPDX-License-Identifier: Apache-2.0
"""Tapes that can be given away: names hashed or dropped, pfns moved, addresses gone.

Which column holds what somebody might not want to tell is in the schema (`private` in
the TOML files); which facts may be told is here. What is not listed here is left out,
so a fact that nobody thought of does no harm.

    names    of threads, control groups, the host, its boot, ring buffers and files.
             With `hash` they are hashed with a random key that is kept nowhere: equal
             names stay equal within a tape, part by part for paths, and tell nothing
             across tapes. Names that the kernel gives its own threads stay.
    pfns     All of a tape moved by one random number of pages, larger than any memory
             and a multiple of 2^18 (1 GiB of 4 KiB pages): alignment, sections and the
             distances between zones are what they were, so a replay runs the same.
             This blurs, and is no cipher: zones begin where the architecture says.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape.recording import capture
from pagetape.recording.capture import Row
from pagetape.schemas import TABLES

MODES = ("hash", "drop")
FACT = "private"  # what the facts of such a tape have

_ALIGN = 1 << 18  # pages
_TIMES = range(1 << 14, 1 << 16)  # of these: beyond any memory there is, within 63 bits

_HIDDEN = "[private]"  # in place of a name that may not be null

# Facts that tell nothing of whose machine it is.
_KEPT = (
    "arch",
    "clock",
    "config",
    "cpus",
    "deferred",
    "ended",
    "events",
    "flight",
    "gfp_bits",
    "kernel",
    "migratetypes",
    "nodes",
    "nr_orders",
    "page_size",
    "pageblock_order",
    "recorded_at",
    "ring_kb",
    "series",
    "skipped_events",
    "subbuf_kb",
)
_NAMES = ("boot_id", "host", "source")

# Threads of the kernel, where a trace.dat tells only their names.
_KERNELS = re.compile(
    r"<.*>|swapper/\d+|kthreadd|pool_workqueue_release|rcu_\w+|rcu[bcon]\w*/\d+|kswapd\d+|"
    r"kcompactd\d+|khugepaged|ksmd|oom_reaper|writeback|kblockd|kworker/.*|(ksoftirqd|migration|"
    r"cpuhp|idle_inject|irq)/.*|kdevtmpfs|kauditd|khungtaskd|watchdogd|kthrotld"
)


class Veil:
    """One tape's way of hiding: a key and a number of pages that nobody will know."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._key = secrets.token_bytes(32)
        self._pages = _ALIGN * secrets.choice(_TIMES)
        self._hide: dict[str, Callable[[pa.RecordBatch, str], pa.Array]] = {
            "pfn": self._moved,
            "name": self._renamed,
            "comm": self._comms,
            "address": lambda batch, name: pa.nulls(len(batch), batch.schema.field(name).type),
            "text": self._without_paths,
        }

    def name(self, text: str | None) -> str | None:
        """What stands for a name, or for each part of a path."""
        if not text:
            return text
        if self.mode == "drop":
            return None
        return "/".join(part and self._hash(part) for part in text.split("/"))

    def _hash(self, text: str) -> str:
        return blake2b(text.encode(), key=self._key, digest_size=6).hexdigest()

    def _moved(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        column = batch[name]
        moved = pc.add(column, pa.scalar(self._pages, column.type))
        if not column.null_count:
            return moved
        # The bytes beneath a null could be the very number of pages.
        buffers = [column.is_valid().buffers()[1], pc.fill_null(moved, 0).buffers()[1]]
        return pa.Array.from_buffers(column.type, len(column), buffers, column.null_count)

    def _renamed(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        nullable = batch.schema.field(name).nullable
        found = [self.name(text) for text in batch[name].to_pylist()]
        return pa.array([x if nullable or x is not None else _HIDDEN for x in found], pa.utf8())

    def _comms(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        pairs = zip(batch[name].to_pylist(), batch["kthread"].to_pylist(), strict=True)
        return pa.array([self._comm(comm, kthread) for comm, kthread in pairs], pa.utf8())

    def _comm(self, comm: str, kthread: int | None) -> str:
        if kthread or (kthread is None and _KERNELS.fullmatch(comm)):
            return comm
        return _HIDDEN if self.mode == "drop" else self._hash(comm)

    @staticmethod
    def _without_paths(batch: pa.RecordBatch, name: str) -> pa.Array:
        return pa.array([_without_paths(text) for text in batch[name].to_pylist()], pa.utf8())

    def batch(self, table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `table` without what is private."""
        for i, column in enumerate(TABLES[table].columns):
            if column.private:
                hidden = self._hide[column.private](batch, column.name)
                batch = batch.set_column(i, batch.schema.field(i), hidden)
        return batch

    def facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Facts without what is private, and that it is."""
        found = {key: facts[key] for key in _KEPT if key in facts}
        for key in _NAMES:
            if name := self.name(facts.get(key)):
                found[key] = name
        if "instances" in facts:
            found["instances"] = [self.name(name) or "" for name in facts["instances"]]
        if "sysctls" in facts:
            sysctls = facts["sysctls"].items()
            found["sysctls"] = {key: value for key, value in sysctls if key.startswith("vm.")}
        if debian := re.search(r" Debian \d+\.\d+\.\d+", facts.get("version", "")):
            found["version"] = f"Linux{debian[0]}"  # the kernel's; the rest says who built it
        if "snapshot" in facts:
            found["snapshot"] = self._snapshot_facts(facts["snapshot"])
        return found | {FACT: {"names": self.mode, "pfns": "moved"}}

    def _snapshot_facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        facts = dict(facts)
        if facts.get("pfn") is not None:
            facts["pfn"] += self._pages
        if facts.get("why"):
            facts["why"] = _without_paths(facts["why"])
        return facts


def _without_paths(text: str | None) -> str | None:
    return text and re.sub(r"(?<![\w/])~?(/[\w.@+-]+){2,}", "[path]", text)


class Veiled:
    """A tape, or what becomes one, behind a veil."""

    def __init__(self, sink: capture.Sink, veil: Veil) -> None:
        self._sink, self._veil = sink, veil

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        self._sink.write(name, self._veil.batch(name, batch))

    def rows(self, name: str, rows: list[Row]) -> None:
        self.write(name, TABLES[name].batch(rows))
