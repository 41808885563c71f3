# SPDX-License-Identifier: Apache-2.0
"""Unfinished tapes that no recorder writes: a damaged checkpoint, tables of very small batches."""

import os
from pathlib import Path

import pytest

from pagetape.recording.recovery import recover
from pagetape.schemas import TABLES
from pagetape.schemas.tape import Tape, TapeError, Writer
from pagetape.tapes.spool import Found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"rows": 7}',
        '{"rows": {"event": -1}}',
        '{"rows": {"event": 1e400}}',
        '{"rows": {"event": true}}',
        '{"rows": {"event": 123456789012345678901234567890}}',
        '{"rows": {"event": ' + "9" * 5000 + "}}",
        "[" * 100_000,
        "\udc80",
    ],
)
def test_damaged_counts_of_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool/checkpoint").write_bytes(
        text.encode("utf-8", "surrogateescape") + b"\nstate"
    )
    with pytest.raises(TapeError, match="checkpoint: damaged"):
        Found.of(tmp_path)


def test_a_checkpoint_is_a_regular_file(tmp_path: Path) -> None:
    checkpoint = tmp_path / "spool/checkpoint"
    checkpoint.parent.mkdir()
    os.mkfifo(checkpoint)
    with pytest.raises(TapeError, match="not a file that a recorder makes"):
        Found.of(tmp_path)
    checkpoint.unlink()
    checkpoint.mkdir()
    with pytest.raises(TapeError, match="not a file that a recorder makes"):
        Found.of(tmp_path)
    checkpoint.rmdir()
    checkpoint.symlink_to("/dev/zero")
    with pytest.raises(OSError, match="symbolic links"):
        Found.of(tmp_path)
    checkpoint.unlink()
    with checkpoint.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(TapeError, match="not a file that a recorder makes"):
        Found.of(tmp_path)


def test_a_good_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool/checkpoint").write_bytes(b'{"rows": {"event": 7}}\nstate\nand more')
    found = Found.of(tmp_path)
    assert found is not None
    assert (found.rows, found.state) == ({"event": 7}, b"state\nand more")


def test_small_batches_become_large_ones(tmp_path: Path) -> None:
    old, out = tmp_path / "old.tape", tmp_path / "out.tape"
    row = {"snapshot": 0, "ts": 0, "node": 0, "zone": "NORMAL", "page_order": 0}
    with Writer(old, {}) as tape:
        for pfn in range(3000):
            tape.write("block_guess", TABLES["block_guess"].batch([row | {"pfn": pfn}]))
    (old / "spool").mkdir()
    recover(old, out)
    (batch,) = Tape(out).batches("block_guess")
    assert batch.column("pfn").to_pylist() == list(range(3000))
