# SPDX-License-Identifier: Apache-2.0
"""Private tapes: names hashed or dropped, pfns moved, addresses removed.

The schema marks private columns (`private` in the TOML files). This module lists the facts
that a private tape contains. It drops every other fact, so a new fact leaks nothing.

    names    of threads, control groups, the host, its boot, ring buffers and files.
             `hash` hashes them with a random key that is not stored. Equal names stay
             equal within a tape, part by part for paths, and within the tapes of one
             recorder, which are one machine; but not across recorders. With the key of a
             fleet, equal names are equal in all its tapes. Names of
             threads that the recorder proved to be the kernel's own stay; a trace.dat
             proves none. Names of BPF programs in stacks are hashed or dropped, too.
    pfns     One random number of pages is added to all pfns of these tapes. It is larger than
             any memory and a multiple of 2^18 (1 GiB of 4 KiB pages): alignment,
             sections and distances between zones stay, so a replay runs the same.
             This is not encryption: the architecture determines where zones begin.
             With the key of a fleet, the number is the same for all tapes of a boot.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pagetape import machine_id
from pagetape.procfs import is_of_memory
from pagetape.recording import capture
from pagetape.recording.capture import Row
from pagetape.schemas import TABLES

FACT = "private"  # key among the facts of a private tape

_ALIGN = 1 << 18  # pages
_TIMES = range(1 << 14, 1 << 16)  # times _ALIGN: larger than any memory, within 63 bits

_HIDDEN = "[private]"  # replaces a dropped name in a column that is not nullable

# Facts that do not identify the machine.
_PUBLIC = (
    "arch",
    "clock",
    "config",
    "cpus",
    "deferred",
    "ended",
    "event_set",
    "events",
    "flight",
    "gfp_bits",
    "kernel",
    "migratetypes",
    "no_stamps",
    "nodes",
    "nr_orders",
    "page_size",
    "pageblock_order",
    "recorded_at",
    "recorder_pid",
    "ring_kb",
    "sampling",
    "series",
    "skipped_events",
    "stamps",
    "subbuf_kb",
)
_NAMES = ("boot_id", "host", "source")

# Names that pagetape gives to threads without one.
_NO_NAMES = ("<idle>", "<...>")

# The symbols of loaded BPF programs have names that users chose.
_OF_BPF = re.compile(r"bpf_prog_.*")


class Veil:
    """Makes the tapes of one recorder private, with a random key and a random pfn offset, or with
    those of the fleet."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self._fleet = machine_id.fleet_key()
        self._key = self._fleet or secrets.token_bytes(32)
        self._pages = _ALIGN * secrets.choice(_TIMES)
        self._hide: dict[str, Callable[[pa.RecordBatch, str], pa.Array]] = {
            "pfn": self._moved,
            "name": self._renamed,
            "comm": self._comms,
            "address": lambda batch, name: pa.nulls(len(batch), batch.schema.field(name).type),
            "text": self._without_paths,
            "function": self._functions,
        }

    def over(self, sink: capture.Sink) -> Veiled:
        """A sink that makes rows private before it passes them on."""
        return Veiled(sink, self)

    def name(self, text: str | None) -> str | None:
        """The replacement of a name, or of each part of a path."""
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
        # The bytes under a null could contain the secret offset: zero them.
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
        if kthread or comm in _NO_NAMES:
            return comm
        return _HIDDEN if self.mode == "drop" else self._hash(comm)

    def _functions(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        names = batch[name].to_pylist()
        hidden = [self.name(x) if x and _OF_BPF.fullmatch(x) else x for x in names]
        return pa.array(hidden, pa.utf8())

    @staticmethod
    def _without_paths(batch: pa.RecordBatch, name: str) -> pa.Array:
        return pa.array([_without_paths(text) for text in batch[name].to_pylist()], pa.utf8())

    def batch(self, table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of `table` with their private columns replaced."""
        for i, column in enumerate(TABLES[table].columns):
            if column.private:
                hidden = self._hide[column.private](batch, column.name)
                batch = batch.set_column(i, batch.schema.field(i), hidden)
        return batch

    def facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The public ones of the facts, and the fact `private`."""
        found = {key: facts[key] for key in _PUBLIC if key in facts} | self._machine(facts)
        for key in _NAMES:
            if name := self.name(facts.get(key)):
                found[key] = name
        if "instances" in facts:
            found["instances"] = [self.name(name) or "" for name in facts["instances"]]
        if "sysctls" in facts:
            sysctls = facts["sysctls"].items()
            found["sysctls"] = {key: value for key, value in sysctls if is_of_memory(key)}
        if debian := re.search(r" Debian \d+\.\d+\.\d+", facts.get("version", "")):
            found["version"] = f"Linux{debian[0]}"  # the rest names the builder
        if "snapshot" in facts:
            found["snapshot"] = self._snapshot_facts(facts["snapshot"])
        return found | {FACT: {"names": self.mode, "pfns": "moved"}}

    def _machine(self, facts: dict[str, Any]) -> dict[str, Any]:
        """The facts about whose tape it is; the pfns move as those of all tapes of its boot do."""
        boot = facts.get("boot_id") or facts.get("host") or ""
        of = machine_id.FLEET if self._fleet else machine_id.RANDOM
        if self._fleet:
            drawn = int(machine_id.keyed(self._fleet, f"pfns of {boot}"), 16)
            self._pages = _ALIGN * _TIMES[drawn % len(_TIMES)]
        if of == facts.get("machine_key") == machine_id.FLEET:
            return {"machine": facts["machine"], "machine_key": of}
        name = facts.get("machine") or boot
        return {"machine": machine_id.keyed(self._key, name), "machine_key": of} if name else {}

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
    """A sink that makes rows private before it passes them on."""

    def __init__(self, sink: capture.Sink, veil: Veil) -> None:
        self._sink, self._veil = sink, veil

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        self._sink.write(name, self._veil.batch(name, batch))

    def rows(self, name: str, rows: list[Row]) -> None:
        self.write(name, TABLES[name].batch(rows))
