# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of spools that no recorder writes: each is one error."""

import os
from pathlib import Path

import pytest

from pagetape.schemas.tape import TapeError
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
