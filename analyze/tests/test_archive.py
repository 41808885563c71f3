# SPDX-License-Identifier: Apache-2.0
"""The archive of a fleet: names, objects that are put once, what may leave, prune and verify."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import s3_server
from hypothesis import given
from hypothesis import strategies as st

from pagetape import machine_id
from pagetape.archive import directory, listing, names, prune, put, verify
from pagetape.archive.policy import Policy
from pagetape.archive.store import Put, Store, StoreError, is_url, open_store
from pagetape.recording.private import Veil
from pagetape.schemas import bundle
from pagetape.schemas.tape import Tape, TapeError

from .conftest import rewritten, write_golden

Run = Callable[..., Any]

DATA = Path(__file__).parents[2] / "collector/tests/data"
FACTS = {
    "host": "web 1/a",
    "boot_id": "0123456789abcdef",
    "recorded_at": "2026-11-21T10:00:00+00:00",
}


def packed(path: Path, facts: dict[str, Any]) -> Path:
    """The golden tape in one file, with some facts changed."""
    source = write_golden(path.with_suffix(".dir"), FACTS | facts)
    path.touch()
    bundle.write(source, path)
    shutil.rmtree(source)
    return path


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(tmp_path_factory.mktemp("file") / "one.tape", {})


def tapes_of(store: Store) -> list[str]:
    return sorted(one.name for _, one in listing.tapes(store))


# ---- names


class FakeTape:
    """A tape of these facts, without rows."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts, self.clock = facts, (1, 2)


TEXT = st.text(max_size=20)
NAMED = st.fixed_dictionaries(
    {
        "boot_id": st.text(min_size=1, max_size=20),
        "host": TEXT,
        "recorded_at": st.one_of(TEXT, st.datetimes(timezones=st.just(UTC)).map(str)),
        "series": st.dictionaries(TEXT, st.integers() | TEXT, max_size=2),
        "machine": TEXT,
    }
)


@given(NAMED, NAMED)
def test_a_name_has_its_parts_and_belongs_to_one_recording(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    name, its = (names.object_name(FakeTape(facts)) for facts in (one, other))  # type: ignore[arg-type]
    named = names.parse(name)
    assert named and name == f"v1/date={named.date}/shard={named.shard}/{named.identity}.tape"
    assert named.identity.startswith(named.shard)
    shown = [{**facts, "machine": names.machine(facts)} for facts in (one, other)]
    assert (name == its) == (shown[0] == shown[1])


@given(st.one_of(st.text(), st.from_regex(r"v1/date=.{0,12}/shard=.{0,3}/[0-9a-f]{0,33}\.tape")))
def test_no_other_text_is_a_name(text: str) -> None:
    named = names.parse(text)
    if named is not None:
        assert text == f"v1/date={named.date}/shard={named.identity[:2]}/{named.identity}.tape"
        assert len(named.identity) == 32


@pytest.mark.parametrize(
    "text",
    [
        "v1/date=2026-02-30/shard=ab/" + "ab" * 16 + ".tape",
        "v1/date=2026-02-03/shard=ac/" + "ab" * 16 + ".tape",
        "v1/date=2026-02-03/shard=ab/../" + "ab" * 16 + ".tape",
        "v1/date=2026-02-03/shard=ab/" + "ab" * 16 + ".tape\n",
        "v1/date=\u0662026-02-03/shard=ab/" + "ab" * 16 + ".tape",
    ],
)
def test_a_name_that_is_almost_right_is_foreign(text: str) -> None:
    assert names.parse(text) is None
    good = "v1/date=2026-02-03/shard=ab/" + "ab" * 16 + ".tape"
    assert names.parse(good) == ("2026-02-03", "ab", "ab" * 16)


def test_a_replay_is_itself_whatever_the_file_of_its_recording_was_called() -> None:
    facts = {"boot_id": "b", "replay": {"recording_name": "a.tape", "policies": ["mainline"]}}
    runs = [{"recording_name": "b.tape"}, {"policies": ["nofragment"]}, {"seed": 3}]
    same, *others = (
        names.object_name(FakeTape(facts | {"replay": facts["replay"] | run}))  # type: ignore[operator,arg-type]
        for run in runs
    )
    its = {names.object_name(FakeTape(one)) for one in (facts, {"boot_id": "b"})}  # type: ignore[arg-type]
    assert same in its and its.isdisjoint(others) and len({*its, *others}) == 4


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2026-11-21T23:30:00-02:00", "2026-11-22"),
        ("2026-11-21T10:00:00", "2026-11-21"),
        ("yesterday", "unknown"),
        ("0001-01-01T00:00:00+14:00", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_date_is_that_of_the_begin_in_utc(text: str | None, date: str) -> None:
    name = names.object_name(FakeTape({"boot_id": "b", "recorded_at": text}))  # type: ignore[arg-type]
    assert f"/date={date}/" in name


def test_machines_are_told_apart_by_their_id_and_else_by_their_boot() -> None:
    guest = {"host": "none", "kernel": "6.1.0", "boot_id": "one"}
    assert names.machine(guest) != names.machine(guest | {"boot_id": "two"})
    known = machine_id.facts("0123456789abcdef0123456789abcdef\n")
    assert names.machine(guest | known) == names.machine({"boot_id": "two"} | known)
    assert "0123456789abcdef" not in json.dumps(known)
    for text in (None, "", "uninitialized", "0123"):
        assert machine_id.facts(text) == {}


def test_the_private_tapes_of_one_recorder_are_one_machine() -> None:
    facts = {"boot_id": "b", "host": "h", **machine_id.facts("0" * 32)}
    for mode in ("hash", "drop"):
        one, other = Veil(mode), Veil(mode)
        found = {
            names.machine(one.facts(facts | {"recorded_at": f"2026-11-2{n}"})) for n in "12345"
        }
        assert len(found) == 1
        assert found.isdisjoint({names.machine(facts), names.machine(other.facts(facts))})


def test_the_key_of_a_fleet_gives_a_machine_one_name_in_each_of_its_tapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = {"boot_id": "b", **machine_id.facts("0" * 32)}
    monkeypatch.setattr(machine_id, "_fleet", b"k" * 32)
    keyed = {"boot_id": "b", **machine_id.facts("0" * 32)}
    assert keyed["machine"] != plain["machine"]
    for mode in ("hash", "drop"):
        for facts in (plain, keyed):  # recorded without the key, and with it
            hidden = Veil(mode).facts(facts)
            assert (hidden["machine"], hidden["machine_key"]) == (keyed["machine"], "fleet")
    assert Veil("hash").name("web1") == Veil("hash").name("web1") != "web1"


# ---- one recording is one object


def test_a_tape_becomes_an_object_with_its_bytes(file: Path, tmp_path: Path, pagetape: Run) -> None:
    fleet = tmp_path / "fleet"
    found = pagetape("archive", file, fleet, "--json").json["tapes"]
    (only,) = fleet.rglob("*.tape")
    assert only.read_bytes() == file.read_bytes()
    assert [(one["put"], one["bytes"]) for one in found] == [("made", file.stat().st_size)]
    assert str(only) == f"{fleet}/{found[0]['object']}" and "/date=2026-11-21/" in str(only)
    before = only.stat()
    renamed = shutil.copy(file, tmp_path / "renamed.tape")
    found = pagetape("archive", renamed, "-o", fleet, "--json").json["tapes"]
    assert [one["put"] for one in found] == ["same"]
    assert only.stat().st_mtime_ns == before.st_mtime_ns


def _another_copy(tape: Path, target: Path) -> Path:
    """The same recording with fewer rows."""
    return rewritten(
        tape, target, change=lambda name, rows: rows.slice(0, 3) if name == "event" else rows
    )


def test_another_copy_is_refused_and_the_first_one_stays(
    file: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    assert pagetape("archive", file, fleet).status == 0
    (only,) = fleet.rglob("*.tape")
    other = _another_copy(file, tmp_path / "other.tape")
    said = pagetape("archive", other, file, fleet, "--json")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert f"{other}: {fleet} has this recording with other contents" in said.err
    found = json.loads(said.out)
    assert [one["tape"] for one in found["refused"]] == [str(other)]
    assert [one["put"] for one in found["tapes"]] == ["same"]
    assert only.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    "facts",
    [
        {"boot_id": "other"},
        {"host": "other"},
        {"machine": "0" * 32},
        {"recorded_at": "2026-11-21T10:00:01+00:00"},
        {"series": {"since": "2026-11-21", "number": 2}},
        {"instances": ["pagetape-2"]},
    ],
)
def test_another_recording_is_another(
    facts: dict[str, Any], file: Path, tmp_path: Path, pagetape: Run
) -> None:
    other = packed(tmp_path / "other.tape", facts)
    assert pagetape("archive", file, other, tmp_path / "fleet").status == 0
    assert len(tapes_of(open_store(tmp_path / "fleet"))) == 2


def test_a_trace_that_is_imported_twice_is_archived_once(tmp_path: Path, pagetape: Run) -> None:
    """Its facts have no boot and no time: its first events tell which recording it is."""
    dat = DATA / "linux-6.1-zstd.dat"
    (tmp_path / "fleet.key").write_text("a key of a fleet")
    (tmp_path / "short.key").write_text("short")
    keyed = ("--private", "hash", "--fleet-key", tmp_path / "fleet.key")
    for how, ends in {
        (): ["made", "same"],
        keyed: ["made", "same"],
        ("--private", "hash"): ["made", "refused"],  # pfns moved by another number
    }.items():
        found = []
        for name in ("a.tape", "b.tape"):
            made = pagetape("import", dat, "-o", tmp_path / name, "--force", *how)
            assert made.status == 0, made.err
            said = pagetape("archive", tmp_path / name, tmp_path / "fleet", "--json")
            answer = json.loads(said.out)
            found += [one["put"] for one in answer["tapes"]] + ["refused"] * said.status
        assert found == ends, how
    assert len(tapes_of(open_store(tmp_path / "fleet"))) == 3
    said = pagetape("import", dat, "-o", tmp_path / "c", "--fleet-key", tmp_path / "short.key")
    assert said.status == 1 and "a key of 5 bytes; a key has 16 or more" in said.err


def test_a_tape_that_is_a_directory_is_packed(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    before = sorted(golden.iterdir())
    assert pagetape("archive", golden, tmp_path / "fleet").status == 0
    (only,) = (tmp_path / "fleet").rglob("*.tape")
    assert Tape(only).facts == Tape(golden).facts and Tape(only).complete
    assert Tape(only).table("event").equals(Tape(golden).table("event"))
    assert (
        pagetape("archive", golden, tmp_path / "fleet", "--json").json["tapes"][0]["put"] == "same"
    )
    assert sorted(golden.iterdir()) == before


def _with_a_spool(tape: Path) -> None:
    (tape / "spool").mkdir()


def _torn(tape: Path) -> None:
    os.truncate(tape / "event.arrow", (tape / "event.arrow").stat().st_size - 10)


def _damaged(tape: Path) -> None:
    data = bytearray((tape / "task.arrow").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    (tape / "task.arrow").write_bytes(data)


UNFIT = {_with_a_spool: "pagetape import", _torn: "its recorder was killed", _damaged: "task"}


@pytest.mark.parametrize("spoil", UNFIT)
def test_an_unfit_tape_is_refused_and_the_others_are_archived(
    spoil: Callable[[Path], None], file: Path, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    bad = shutil.copytree(golden, tmp_path / "bad.tape")
    spoil(bad)
    said = pagetape("archive", bad, tmp_path / "none.tape", file, tmp_path / "fleet", "--json")
    assert (said.status, said.err.count("\n")) == (1, 2)
    assert str(bad) in said.err and UNFIT[spoil] in said.err
    found = json.loads(said.out)
    assert [one["tape"] for one in found["tapes"]] == [str(file)]
    assert [one["tape"] for one in found["refused"]] == [str(bad), f"{tmp_path}/none.tape"]


def test_a_file_with_more_than_tables_in_it_stays_here(
    file: Path, tmp_path: Path, pagetape: Run
) -> None:
    more = shutil.copy(file, tmp_path / "more.tape")
    with zipfile.ZipFile(more, "a") as opened:
        opened.writestr("secrets.txt", "of this machine")
    cut = tmp_path / "cut.tape"
    cut.write_bytes(file.read_bytes()[:-30])
    for bad, why in {more: "holds other files too, such as secrets.txt", cut: "at its end"}.items():
        said = pagetape("archive", bad, tmp_path / "fleet")
        assert (said.status, said.err.count("\n")) == (1, 1) and why in said.err
    assert pagetape("report", "loss", cut, "--json").json["lost"] is None
    assert pagetape("import", cut, "-o", tmp_path / "kept.tape").status == 0
    assert Tape(tmp_path / "kept.tape").table("event").equals(Tape(file).table("event"))


@pytest.mark.parametrize("url", ["s3://", "ftp://a/b", "gs:///x", "-"])
def test_what_is_no_archive_is_one_line(url: str, file: Path, pagetape: Run) -> None:
    said = pagetape("archive", file, url)
    assert said.status == 1 and said.err.count("\n") == 1 and url in said.err
    assert is_url("gs://a") and not is_url("/a") and not is_url("c://a")


def test_an_archive_of_parquet_is_refused_by_every_command(
    file: Path, tmp_path: Path, pagetape: Run
) -> None:
    """The layout of before: TABLE/host=HOST/date=DATE/FILE.parquet."""
    fleet = tmp_path / "fleet"
    old = fleet / "lost/host=none/date=2026-11-21/boot-01234567-1-0-0123456789abcdef.parquet"
    old.parent.mkdir(parents=True)
    old.write_bytes(b"PAR1")
    policy = ("--policy", "nofragment:mode=always")
    for words in (
        ("archive", file, fleet),
        ("ship", tmp_path, fleet),
        *((name, fleet) for name in ("verify", "prune", "compact", "info")),
        ("report", "loss", fleet),
        ("sql", fleet, "SELECT 1"),
        ("html", fleet, "-o", tmp_path / "page.html"),
        ("sweep", fleet, *policy, "-o", tmp_path / "results"),
    ):
        said = pagetape(*words)
        assert (said.status, said.out, said.err.count("\n")) == (1, "", 1)
        assert f"{fleet}: an archive of Parquet files" in said.err
    assert [path for path in fleet.rglob("*") if path.is_file()] == [old]


# ---- put-if-absent, in a directory and in a bucket


@pytest.fixture(scope="module")
def server() -> Iterator[s3_server.Server]:
    with s3_server.Server(failing=0.2) as found:
        yield found


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if request.param == "directory":
        return open_store(tmp_path / "fleet", create=True)
    for name, value in request.getfixturevalue("server").environment.items():
        monkeypatch.setenv(name, value)
    return open_store(f"s3://{s3_server.BUCKET}/{tmp_path.name}")


def test_an_object_is_put_once(store: Store, file: Path, tmp_path: Path) -> None:
    sent: list[int] = []
    assert store.put_new("v1/a/b", file, sent.append) is Put.MADE
    assert store.put_new("v1/a/b", file, sent.append) is Put.SAME
    assert store.put_new("v1/a/b", b"other", sent.append) is Put.OTHER
    assert sent == [file.stat().st_size]
    assert store.put_new("v1/c", b"0123456789") is Put.MADE
    assert store.put_new("v1/c", b"0123456780") is Put.OTHER  # of the same length
    assert store.get("v1/c") == b"0123456789" and store.get_range("v1/c", 2, 3) == b"234"
    store.fetch("v1/a/b", tmp_path / "fetched")
    assert (tmp_path / "fetched").read_bytes() == file.read_bytes()
    assert sorted(one.name for one in store.list("v1")) == ["v1/a/b", "v1/c"]
    assert [one.name for one in store.list("v1/a")] == ["v1/a/b"] and not list(store.list("v2"))
    assert store.below("v1") == ["a"]
    for _ in range(2):
        store.delete("v1/c")
    assert store.head("v1/c") is None
    with pytest.raises(StoreError, match="v1/c: no such object"):
        store.get("v1/c")


def test_of_many_at_once_one_makes_the_object(store: Store) -> None:
    for nr in range(5):
        with ThreadPoolExecutor(4) as pool:
            ways = [
                pool.submit(store.put_new, f"v1/{nr}", bytes([way]) * 100_000) for way in range(4)
            ]
        found = [way.result() for way in ways]
        # A 503 may come after the object was made: then its maker finds it there.
        assert sorted(found)[1:] == [Put.OTHER] * 3 and found.count(Put.OTHER) == 3
        winner = next(way for way, one in enumerate(found) if one is not Put.OTHER)
        assert store.get(f"v1/{nr}") == bytes([winner]) * 100_000


def test_a_bucket_that_does_not_exist_is_one_line(server: s3_server.Server, file: Path) -> None:
    code = "from pagetape.cli import main; main()"
    for words in (("archive", file), ("verify",)):
        argv = [sys.executable, "-c", code, *words, "s3://no-such-bucket/x"]
        env = os.environ | server.environment
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and done.stderr.count("\n") == 1
        assert "no such bucket" in done.stderr or "no such object" in done.stderr


def test_a_client_that_may_only_put_does_so(
    server: s3_server.Server, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    store = open_store(f"s3://{s3_server.BUCKET}/{tmp_path.name}")
    server.proxy.denied |= {"HEAD", "GET"}
    try:
        assert store.put_new("v1/a", file) is Put.MADE
        with pytest.raises(StoreError) as found:
            store.put_new("v1/a", file)  # it cannot compare
    finally:
        server.proxy.denied.clear()
    assert found.value.errno == errno.EACCES and "\n" not in str(found.value.strerror)
    assert store.put_new("v1/a", file) is Put.SAME


def test_a_listing_goes_on_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    import obstore

    rows = [
        {"path": f"v1/{nr}", "size": 1, "e_tag": None, "last_modified": datetime.now(UTC)}
        for nr in range(6)
    ]
    begun = []

    def pages(_store: Any, offset: str | None, **_given: Any) -> Iterator[Any]:
        begun.append(offset)
        rest = [row for row in rows if offset is None or str(row["path"]) > offset]
        yield rest[:2]
        if len(begun) < 3:
            raise obstore.exceptions.GenericError("the connection was reset")
        yield rest[2:]

    monkeypatch.setattr(obstore, "list", pages)
    monkeypatch.setattr("pagetape.archive.store._WAIT_S", 0)
    store = Store("s3://a", None, None)  # type: ignore[arg-type]
    assert [one.name for one in store.list()] == [f"v1/{nr}" for nr in range(6)]
    assert begun == [None, "v1/1", "v1/3"]


# ---- a directory that others may write, too


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_link_below_the_archive_is_not_followed(
    depth: int, file: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet, home = tmp_path / "fleet", tmp_path / "home"
    home.mkdir()
    parts = names.object_name(Tape(file)).split("/")[: depth + 1]
    fleet.joinpath(*parts[:-1]).mkdir(parents=True)
    fleet.joinpath(*parts).symlink_to(home)
    said = pagetape("archive", file, fleet)
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert f"{parts[-1]} is a link or no directory" in said.err
    assert not list(home.iterdir())


def test_a_fifo_with_the_name_of_a_tape_stops_nobody(
    file: Path, tmp_path: Path, pagetape: Run
) -> None:
    fleet = tmp_path / "fleet"
    path = fleet / names.object_name(Tape(file))
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert pagetape("archive", file, fleet).status == 1
    with pytest.raises(StoreError, match="not a regular file"):
        open_store(fleet).get(names.object_name(Tape(file)))
    assert pagetape("verify", fleet).status in (0, 1)


def test_an_archive_is_as_private_as_its_tapes(file: Path, tmp_path: Path, pagetape: Run) -> None:
    before = os.umask(0o022)
    try:
        for mode, wanted in ((0o600, 0o600), (0o644, 0o644)):
            fleet = tmp_path / f"{mode:o}"
            fleet.mkdir(mode=0o755)
            one = Path(shutil.copy(file, tmp_path / "one.tape"))
            one.chmod(mode)
            assert pagetape("archive", one, fleet).status == 0
            (only,) = fleet.rglob("*.tape")
            assert only.stat().st_mode & 0o777 == wanted
            one.unlink()
        assert pagetape("archive", file, tmp_path / "new").status == 0
        assert all(not path.stat().st_mode & 0o077 for path in (tmp_path / "new").rglob("*"))
    finally:
        os.umask(before)


STEP = """
import atexit, os, signal, sys
from pagetape import cli

steps = int(sys.argv.pop(1))
def count(function):
    def counted(*args, **kwargs):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return counted

for name in ("open", "mkdir", "fsync", "link", "unlink"):
    setattr(os, name, count(getattr(os, name)))
begin = steps
atexit.register(lambda: os.write(2, str(begin - steps).encode()))
cli.main()
"""


def test_a_kill_at_any_step_leaves_a_whole_object_or_none(
    file: Path, tmp_path: Path, pagetape: Run
) -> None:

    def killed(steps: int, fleet: Path) -> subprocess.CompletedProcess[bytes]:
        argv = [sys.executable, "-c", STEP, str(steps), "archive", file, fleet]
        return subprocess.run(argv, capture_output=True, check=False)

    total = int(killed(1 << 20, tmp_path / "whole").stderr)
    ends = set()
    for steps in range(total - 14, total, 2):  # the last ones put the object
        fleet = tmp_path / f"fleet{steps}"
        assert killed(steps, fleet).returncode == -signal.SIGKILL
        found = list(fleet.rglob("*.tape")) if fleet.exists() else []
        assert all(one.read_bytes() == file.read_bytes() for one in found), steps
        ends.add(len(found))
        assert pagetape("archive", file, fleet).status == 0
        assert [one.read_bytes() for one in fleet.rglob("*.tape")] == [file.read_bytes()]
        assert not [*fleet.rglob(".*")]
    assert ends == {0, 1}


def test_a_filesystem_without_links_or_with_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store = open_store(tmp_path / "fleet", create=True)
    monkeypatch.setattr(os, "link", refuse)
    assert [store.put_new("v1/a", data) for data in (b"1", b"1", b"2")] == ["made", "same", "other"]
    monkeypatch.setattr(directory.shutil, "copyfileobj", full)
    with pytest.raises(StoreError, match="v1/b: No space left on device"):
        store.put_new("v1/b", b"1")
    assert [path.name for path in (tmp_path / "fleet").rglob("*") if path.is_file()] == ["a"]


# ---- what may leave


def test_a_policy_names_what_must_not_leave(golden: Path, tmp_path: Path, pagetape: Run) -> None:
    policy, tape = tmp_path / "policy.toml", Tape(golden)
    every = ", ".join(f'"{name}"' for name in sorted(tape.tables - {"stack", "frame"}))
    for text, why in {
        'names = "hash"': "names that are plain, not hash; pagetape import",
        'pfns = "moved"': "pfns that are not moved; pagetape import",
        f"tables = [{every}]": "table frame, table stack",
        'columns.task = ["pid", "tgid", "kthread"]': "column task.cgroup, column task.comm",
        "facts = []": "fact arch",
    }.items():
        policy.write_text(text)
        said = pagetape("archive", golden, tmp_path / "fleet", "--policy", policy)
        assert (said.status, said.err.count("\n")) == (1, 1)
        assert f"{golden}: {policy} does not let go: " in said.err and why in said.err
    assert not list((tmp_path / "fleet").rglob("*.tape"))
    policy.write_text(f'names = "hash"\npfns = "moved"\ntables = [{every}, "stack", "frame"]\n')
    private = tmp_path / "private.tape"
    assert pagetape("import", golden, "--private", "hash", "-o", private).status == 0
    assert pagetape("archive", private, tmp_path / "fleet", "--policy", policy).status == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('names = "none"', "names is 'none', not one of plain, hash, drop"),
        ("pfns = 1", "pfns is 1, not one of plain, moved"),
        ('tables = ["evnt"]', "tables has 'evnt'; did you mean 'event'?"),
        ("tables = 3", "tables is 3, not a list of names"),
        ('table = ["event"]', "it has 'table'; did you mean 'tables'?"),
        ("columns = 3", "columns is 3, not a table of lists"),
        ('columns.task = ["comn"]', "columns.task has 'comn'; did you mean 'comm'?"),
        ("names = ", "Invalid value"),
    ],
)
def test_a_wrong_policy_is_one_line(
    text: str, why: str, file: Path, tmp_path: Path, pagetape: Run
) -> None:
    (tmp_path / "policy.toml").write_text(text)
    for words in (("archive", file), ("ship", tmp_path)):
        said = pagetape(*words, tmp_path / "fleet", "--policy", tmp_path / "policy.toml")
        assert (said.status, said.err.count("\n")) == (1, 1)
        assert f"{tmp_path}/policy.toml: " in said.err and why in said.err


def test_the_policy_of_the_machine_holds_without_an_option(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pagetape.archive.policy.DEFAULT", tmp_path / "policy.toml")
    Policy.read(None).check(Tape(file))
    (tmp_path / "policy.toml").write_text('names = "drop"')
    with pytest.raises(TapeError, match="names that are plain, not drop"):
        Policy.read(None).check(Tape(file))


# ---- prune and verify


@pytest.fixture(scope="module")
def made_month(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp_path = tmp_path_factory.mktemp("month")
    store = open_store(tmp_path / "month", create=True)
    for ago in range(10):
        at = datetime.now(UTC) - timedelta(days=ago)
        tape = packed(tmp_path / f"{ago}.tape", {"recorded_at": at.isoformat(timespec="seconds")})
        assert put.put(tape, store, Policy()).put == "made"
    put.put(packed(tmp_path / "x.tape", {"recorded_at": "once"}), store, Policy())
    return tmp_path / "month"


@pytest.fixture
def month(made_month: Path, tmp_path: Path) -> Store:
    """An archive with a tape of each of ten days, the last of them today, and one without a day."""
    return open_store(shutil.copytree(made_month, tmp_path / "month"))


def test_prune_marks_first_and_removes_later(month: Store, pagetape: Run) -> None:
    before = tapes_of(month)
    found = pagetape("prune", month.url, "--older", "7d", "--json").json
    assert (found["done"], found["marked"], found["tapes"]) == (False, 2, 9)
    assert tapes_of(month) == before
    found = pagetape("prune", month.url, "--older", "7d", "--yes", "--json").json
    assert (found["marked"], found["removed"]) == (2, 0)
    left = tapes_of(month)
    assert len(left) == 9 and len([*month.list("v1")]) == 11
    assert any("/date=unknown/" in name for name in left)
    assert min(name for name in left) > max(set(before) - set(left))
    again = pagetape("prune", month.url, "--older", "7d", "--yes", "--json").json
    assert (again["marked"], again["waiting"], again["removed"]) == (0, 2, 0)
    last = pagetape("prune", month.url, "--grace", "0", "--yes", "--json").json
    assert (last["marked"], last["removed"], last["tapes"]) == (0, 2, 9)
    assert sorted(one.name for one in month.list("v1")) == left
    assert not [*month.list("pruned")]


def test_prune_keeps_the_newest_bytes(month: Store) -> None:
    sizes = {one.name: one.size for one in month.list("v1")}
    dated = sorted(name for name in sizes if "unknown" not in name)
    (undated,) = sizes.keys() - set(dated)
    keep = sizes[undated] + sum(sizes[name] for name in dated[-3:]) + 10
    done = prune.prune(month, None, keep)
    assert (done.marked, done.tapes) == (7, 4) and done.bytes <= keep
    assert tapes_of(month) == sorted([*dated[-3:], undated])
    assert prune.prune(month, None, 0).tapes == 0


def test_a_prune_that_was_killed_is_finished_by_the_next(
    month: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    prune.prune(month, 5 * 86400, None)
    left, deleted = tapes_of(month), []

    def dying(name: str) -> None:
        if len(deleted) == 2:
            raise KeyboardInterrupt
        deleted.append(name)
        (month.root / name).unlink()  # type: ignore[operator]

    monkeypatch.setattr(month, "delete", dying)
    with pytest.raises(KeyboardInterrupt):
        prune.prune(month, None, None, grace_s=0)
    monkeypatch.undo()
    assert tapes_of(month) == left
    assert prune.prune(month, None, None, grace_s=0).removed == 2
    assert sorted(one.name for one in month.list("v1")) == left
    assert not [*month.list("pruned")]


def test_foreign_objects_are_left_out_aloud(month: Store, pagetape: Run) -> None:
    tapes = tapes_of(month)
    for name in ("v1/notes.txt", tapes[0].replace("date=", "day="), f"{tapes[0]}.old", "else/x"):
        month.put_new(name, b"foreign")
    month.put_new("pruned/v1/date=2026-11-21/0.json", b"[[[")
    said = pagetape("verify", month.url)
    assert said.status == 0 and "11 tapes" in said.out
    assert "left out 3 objects without the name of a tape, such as v1/" in said.err
    assert "not a mark of prune: left out" in said.err
    assert prune.prune(month, 0, None, act=False).tapes + 0 <= 11


def test_verify_finds_each_kind_of_damage(month: Store, file: Path, pagetape: Run) -> None:
    assert month.root
    whole = pagetape("verify", month.url, "--json").json
    assert (whole["tapes"], whole["checked"], whole["bad"]) == (11, 11, [])
    flipped, cut, renamed, foreign, *_ = (month.root / name for name in tapes_of(month))
    data = bytearray(flipped.read_bytes())
    data[len(data) // 2] ^= 1
    flipped.write_bytes(data)
    cut.write_bytes(cut.read_bytes()[:-1000])
    renamed.write_bytes(file.read_bytes())
    foreign.write_bytes(b"no tape at all")
    said = pagetape("verify", month.url, "--json")
    bad = {one["object"]: one["reason"] for one in json.loads(said.out)["bad"]}
    assert said.status == 1 and said.err.count("\n") == 4
    where = [str(path.relative_to(month.root)) for path in (flipped, cut, renamed, foreign)]
    assert sorted(bad) == sorted(where)
    assert f"has the tape {names.object_name(Tape(file))}" in bad[where[2]]
    assert json.loads(pagetape("verify", month.url, "--sample", 3, "--json").out)["checked"] == 3


def test_verify_compares_with_the_hash_that_the_bucket_stored(
    server: s3_server.Server, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    store = open_store(f"s3://{s3_server.BUCKET}/{tmp_path.name}")
    put.put(file, store, Policy())
    ((_, found),) = listing.tapes(store)
    assert verify.problem(store, found) is None

    def other(_name: str, to: Path) -> None:
        to.write_bytes(file.read_bytes()[:-1] + b"x")

    monkeypatch.setattr(store, "fetch", other)
    assert "the bucket stored" in (verify.problem(store, found) or "")
