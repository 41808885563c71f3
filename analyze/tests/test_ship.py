# SPDX-License-Identifier: Apache-2.0
"""Shipping tapes from a recorder's directory, and pulling them over ssh."""

import fcntl
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import livetest
import matrix
import pytest
import s3_server
import shipping

from pagetape.archive import listing, names, pull, ship
from pagetape.archive.policy import Policy
from pagetape.archive.ship import Limits, Shipper
from pagetape.archive.store import Store, StoreError, open_store
from pagetape.indexing.compact import Compactor, dates
from pagetape.recording import service
from pagetape.recording.tape_dir import TapeDir
from pagetape.schemas.tape import Tape, TapeError
from pagetape.tapes import series

from .test_service import setting

Run = Callable[..., Any]

KILLS = matrix.number(1, 3)  # of each shipper

SHIP = [sys.executable, "-c", "from pagetape.cli import main; main()", "ship"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, golden: Path) -> Path:
    """Twelve tapes of a rotation."""
    place = tmp_path_factory.mktemp("tapes") / "made"
    shipping.make_tapes(golden, place, 12)
    return place


@pytest.fixture
def tapes(made: Path, tmp_path: Path) -> Path:
    """A directory of six of them."""
    (tmp_path / "tapes").mkdir()
    for path in sorted(made.iterdir())[:6]:
        shutil.copy2(path, tmp_path / "tapes")
    return tmp_path / "tapes"


def count(store: Store) -> int:
    return len(list(listing.tapes(store)))


# ---- put-if-absent under fire


@pytest.fixture(scope="module")
def server() -> Iterator[s3_server.Server]:
    with s3_server.Server(failing=0.05) as found:
        yield found


def test_shippers_that_are_killed_archive_each_tape_once(
    made: Path, server: s3_server.Server, monkeypatch: pytest.MonkeyPatch, pagetape: Run
) -> None:
    """Four shippers, each killed, 503 to 5 % of the requests, the server once away.
    The index counts the events of all tapes."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)

    def disturb() -> None:
        time.sleep(1)
        server.proxy.down = True
        time.sleep(0.5)
        server.proxy.down = False

    found = shipping.fire(made, f"s3://{s3_server.BUCKET}/fire", KILLS, disturb=disturb)
    assert (found["tapes"], found["objects"], found["wrong"]) == (12, 12, [])
    assert found["killed in mid-run"] == 4 * KILLS and found["looks of the reader"] > 3
    assert server.proxy.failed > 0
    store = open_store(f"s3://{s3_server.BUCKET}/fire")
    assert len(list(store.list(names.TAPES))) == 12
    for _, one in listing.tapes(store):
        sizes = {path.stat().st_size for path in made.iterdir()}
        assert one.size in sizes
    for day in dates(store):
        Compactor(store).run(day)
    count = "SELECT sum(events)::BIGINT AS nr FROM fleet_event"
    events = sum(Tape(path).num_rows("event") for path in made.iterdir())
    assert pagetape("sql", store.url, count, "--json").json["rows"] == [{"nr": events}]


def test_a_reader_reports_what_must_not_be(made: Path, tmp_path: Path) -> None:
    """The reader of the test above finds lost tapes, foreign objects and wrong contents."""
    store = open_store(tmp_path / "fleet", create=True)
    Shipper(made, store, Policy(), Limits()).once()
    reader = shipping.Reader(store)
    reader.look()
    assert (reader.wrong, len(reader._seen)) == ([], 12)
    (name, *_) = (one.name for _, one in listing.tapes(store))
    store.delete(name)
    store.put_new("v1/foreign", b"x")
    reader.look()
    assert len(reader.wrong) == 2 and "1 tapes are gone" in reader.wrong


# ---- one directory


def test_finished_tapes_are_shipped_and_others_wait(
    tapes: Path, golden: Path, tmp_path: Path, pagetape: Run
) -> None:
    busy = shutil.copytree(golden, tapes / "host-2026-12-01T100000Z.tape")
    (busy / "spool").mkdir()
    lock = os.open(busy / "spool", os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (tapes / "notes.txt").write_text("mine")
    (tapes / ".host-2026.tape.01234567.part").write_text("half")
    found = pagetape("ship", tapes, tmp_path / "fleet", "--json").json
    assert [one["put"] for one in found["tapes"]] == ["made"] * 6
    assert [one["tape"] for one in found["tapes"]] == sorted(one["tape"] for one in found["tapes"])
    assert (found["waiting"], found["refused"], found["lost"]) == ([str(busy)], [], 0)
    os.close(lock)
    recorder = TapeDir(tapes, None)  # of private tapes, which have no spool
    found = pagetape("ship", tapes, tmp_path / "fleet", "--json").json
    assert (found["waiting"], found["refused"]) == ([str(busy)], [])
    recorder.close()
    said = pagetape("ship", tapes, tmp_path / "fleet")
    assert said.status == 1 and said.err.count("\n") == 1  # its recorder was killed
    assert "pagetape import" in said.err and "0 made, 6 there before, 1 refused" in said.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("none", "fleet"), "none: no such directory of tapes"),
        (("tapes", "s3://"), "names no bucket"),
        (("tapes", "fleet", "--follow", "--json"), "--json needs an end"),
        (("tapes", "fleet", "--rate", "fast"), "not a rate (example: 100kB/s or 2MB/s)"),
        (("tapes", "fleet", "--policy", "none.toml"), "none.toml: No such file"),
    ],
)
def test_bad_input_is_one_line(
    words: tuple[str, ...],
    why: str,
    tapes: Path,
    monkeypatch: pytest.MonkeyPatch,
    pagetape: Run,
) -> None:
    monkeypatch.chdir(tapes.parent)
    said = pagetape("ship", *words)
    assert said.status in (1, 2) and said.err.count("\n") == 1 and why in said.err


def test_a_rate_holds_from_the_first_byte_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(ship.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(ship.time, "sleep", lambda s: clock.__setitem__(0, clock[0] + s))
    pace = ship.Pace(1000)
    for size in (500, 1500, 0, 3000):
        pace(size)
    assert clock[0] == pytest.approx(105)
    clock[0] += 60  # a rest is no credit for a burst
    pace(2000)
    assert clock[0] == pytest.approx(167)
    ship.Pace(None)(1 << 40)
    assert clock[0] == pytest.approx(167)


def test_only_new_bytes_count_for_the_rate(tapes: Path, tmp_path: Path, pagetape: Run) -> None:
    assert pagetape("ship", tapes, tmp_path / "fleet").status == 0
    since = time.monotonic()
    assert pagetape("ship", tapes, tmp_path / "fleet", "--rate", "1B/s").status == 0
    assert time.monotonic() - since < 60  # the tapes have more than 100,000 bytes


class Away(Store):
    """An archive that does not answer."""

    def __init__(self) -> None:
        super().__init__("s3://away", None, None)  # type: ignore[arg-type]

    def put_new(self, *_: Any) -> Any:
        raise StoreError(5, "s3://away: no answer")


def test_tapes_that_wait_are_bounded_and_each_lost_one_is_named(tapes: Path) -> None:
    paths = sorted(tapes.iterdir())
    size = sum(path.stat().st_size for path in paths[-2:])
    warned: list[str] = []
    shipper = Shipper(tapes, Away(), Policy(), Limits(keep=size), warn=warned.append)
    with pytest.raises(StoreError, match="no answer"):
        shipper.once()
    assert sorted(tapes.glob("*.tape")) == paths[-2:]
    assert len(warned) == 4 and all("removed, not shipped: --keep" in line for line in warned)
    rows = series.removed(tapes)
    assert [row["tape"] for row in rows] == [path.name for path in paths[:4]]


def test_shipped_tapes_go_first_and_the_newest_stays(tapes: Path, tmp_path: Path) -> None:
    paths = sorted(tapes.iterdir())
    foreign = tapes / "a-foreign.tape"
    shutil.copy(paths[0], foreign)
    store = open_store(tmp_path / "fleet", create=True)
    shipper = Shipper(tapes, store, Policy(), Limits(keep=0))
    shipper._bound(ship.Shipped())  # nothing is shipped yet
    assert sorted(tapes.glob("*.tape")) == [paths[-1]]
    for path in paths[:3]:
        shutil.copy(paths[-1], path)
    done = shipper.once()
    assert count(store) == 1 and done.lost == 0
    assert len(list(tapes.glob("*.tape"))) == 1


def test_a_shipper_without_its_own_tapes_removes_nothing_of_others(
    golden: Path, tmp_path: Path
) -> None:
    """Tapes that no recorder of a series made stay, whatever --keep says."""
    (tmp_path / "tapes").mkdir()
    for name in "abc":
        shutil.copytree(golden, tmp_path / "tapes" / f"{name}.tape")
    store = open_store(tmp_path / "fleet", create=True)
    done = Shipper(tmp_path / "tapes", store, Policy(), Limits(keep=0)).once()
    assert (len(done.tapes), done.removed) == (3, [])
    assert len(list((tmp_path / "tapes").iterdir())) == 3


def test_a_shipper_follows_its_recorder_over_an_outage_until_sigterm(
    made: Path, server: s3_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from pagetape import cli; from pagetape.archive import ship, store\n"
        "store._TRIES, ship.EVERY_S, ship._LATER_S = 1, 0.1, 0.2\n"
        "cli.main()"
    )
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "tapes").mkdir()
    url = f"s3://{s3_server.BUCKET}/follow"
    argv = [sys.executable, "-c", code, "ship", tmp_path / "tapes", url, "--follow"]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stderr
        try:
            sources = iter(sorted(made.iterdir()))

            def finish() -> None:
                """A tape gets its name when it is complete."""
                source = next(sources)
                part = tmp_path / source.name
                shutil.copy(source, part)
                part.rename(tmp_path / "tapes" / source.name)

            finish()
            assert ": made, " in process.stdout.readline()
            server.proxy.down = True
            finish()
            assert "tapes wait in" in process.stderr.readline()
            finish()
            server.proxy.down = False
            assert ": made, " in process.stdout.readline()
            assert ": made, " in process.stdout.readline()
            assert "answers again" in process.stderr.readline()
        finally:
            server.proxy.down = False
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 143
    assert count(open_store(url)) == 3


# ---- the service


def test_the_shipper_has_a_unit_of_its_own_with_fewer_rights(pagetape: Run, tmp_path: Path) -> None:
    said = pagetape("install-service", "--print", "--ship", "s3://b/fleet", "--rate", "1MB/s")
    recorder, unit = said.out.split("\n# Made by", 1)
    assert "ExecStart" in recorder and setting(recorder, "PrivateNetwork") == ["yes"]
    (start,) = setting(unit, "ExecStart")
    words = ["ship", "/var/lib/pagetape", "s3://b/fleet", "--follow", "--rate", "1000000B"]
    assert shlex.split(start)[1:] == words
    assert setting(unit, "CapabilityBoundingSet") == [""]
    assert setting(unit, "ReadOnlyPaths") == ["-/var/lib/pagetape"]
    assert setting(unit, "ReadWritePaths") == setting(unit, "PrivateNetwork") == []
    assert setting(unit, "RestrictAddressFamilies") == ["AF_INET AF_INET6 AF_UNIX"]
    unit = pagetape("install-service", "--print", "--ship", "/srv/fleet").out.split("\n# Made by")[
        1
    ]
    assert setting(unit, "ReadWritePaths") == ["/srv/fleet"]
    assert setting(unit, "PrivateNetwork") == ["yes"]
    for words_, why in {
        ("--ship", "fleet"): "a service needs an absolute path",
        ("--ship", "s3://"): "names no bucket",
        ("--rate", "1MB/s"): "--rate needs --ship",
    }.items():
        said = pagetape("install-service", "--print", *words_)
        assert said.status in (1, 2) and said.err.count("\n") == 1 and why in said.err
    root = tmp_path / "image"
    assert pagetape("install-service", "--root", root, "--ship", "s3://b/fleet").status == 0
    place = root / service.PLACE
    assert sorted(path.name for path in place.iterdir()) == [service.SHIP, service.NAME]
    assert pagetape("install-service", "--root", root, "--uninstall").status == 0
    assert not list(place.iterdir())


def test_a_shipper_works_with_the_rights_of_its_unit(
    tapes: Path, tmp_path: Path, pagetape: Run
) -> None:
    """No capability, and all read-only but the archive."""
    if os.geteuid():
        livetest.skip("needs root")
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    unit = pagetape("install-service", "--print", "--ship", fleet).out.split("\n# Made by")[1]
    assert setting(unit, "ReadWritePaths") == [str(fleet)]
    script = f"""set -e
        mount --make-rprivate /
        for path in {fleet} {tmp_path}; do mount --bind $path $path; done
        mount --bind {fleet} {fleet}
        mount -o remount,bind,ro {tmp_path}
        exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all "$@"
    """
    argv = ["unshare", "--mount", "sh", "-c", script, "sh", *SHIP, tapes, fleet]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr or "setpriv" in done.stderr:
        livetest.skip(f"cannot build the sandbox here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert count(open_store(fleet)) == 6
    argv[-2:] = [tapes, fleet, "--keep", "1B"]  # type: ignore[list-item]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert len(list(tapes.glob("*.tape"))) == 6  # it may not remove any


# ---- pull


@pytest.fixture
def ssh(tmp_path: Path) -> Path:
    """A command like ssh that runs its command here; it refuses all but the host web1."""
    path = tmp_path / "bin" / "ssh"
    path.parent.mkdir()
    path.write_text(
        '#!/bin/sh\nhost=$1; shift\n[ "$host" = web1 ] || { echo "ssh: no host $host" >&2;'
        ' exit 255; }\necho "$*" >>"$0.log"\nexec sh -c "$*"\n'
    )
    path.chmod(0o755)
    return path


def test_finished_tapes_come_over_ssh_once(
    tapes: Path,
    golden: Path,
    ssh: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pagetape: Run,
) -> None:
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    remote = tapes.rename(tmp_path / "a dir's $name")
    shutil.copytree(golden, remote / "recorded.tape")
    (remote / "notes.txt").write_text("mine")
    (remote / "odd\nname é.tape").write_bytes(next(remote.glob("host*")).read_bytes())
    here = tmp_path / "here"
    found = pagetape("pull", f"web1:{remote}", here, "--json").json
    assert len(found["made"]) == 7 and (found["same"], found["refused"]) == (0, [])
    for name in found["made"]:
        assert (here / name).read_bytes() == (remote / name).read_bytes()
        assert stat.S_IMODE((here / name).stat().st_mode) == 0o600
    assert sorted(path.name for path in here.iterdir()) == sorted(found["made"])
    (here / found["made"][0]).unlink()
    found = pagetape("pull", f"web1:{remote}", here, "--json").json
    assert (len(found["made"]), found["same"]) == (1, 6)
    said = pagetape("pull", f"web1:{remote}", here)
    assert "0 tapes" in said.out and "7 there before" in said.out


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("web1", "web1: not HOST:DIR"),
        ("-oProxyCommand=x:dir", "not HOST:DIR"),
        ("a@-b/c:dir", "not HOST:DIR"),
        (":dir", "not HOST:DIR"),
        ("web2:dir", "web2:dir: ssh: no host web2"),
        ("web1:/no/such/dir", "web1:/no/such/dir: "),
    ],
)
def test_a_place_that_cannot_be_reached_is_one_line(
    place: str, why: str, ssh: Path, tmp_path: Path, pagetape: Run
) -> None:
    said = pagetape("pull", "--ssh", ssh, "--", place, tmp_path / "here")
    assert (said.status, said.err.count("\n")) == (1, 1) and why in said.err
    said = pagetape("pull", f"web1:{tmp_path}", tmp_path / "here", "--ssh", "/no/such/ssh")
    assert said.status == 1 and "/no/such/ssh: No such file" in said.err


def _lying(path: Path, listed: str, sent: str) -> str:
    """An ssh that lists one thing and sends another."""
    path.write_text(f"#!/bin/sh\ncase $2 in *find*) printf '{listed}';; *) {sent};; esac\n")
    path.chmod(0o755)
    return str(path)


def test_a_machine_that_lies_writes_nothing_elsewhere(
    tapes: Path, tmp_path: Path, pagetape: Run
) -> None:
    good = sorted(tapes.iterdir())[0]
    here, away = tmp_path / "here", tmp_path / "evil.tape"
    (tmp_path / "sent").mkdir()
    for name in ("evil.tape", "b.tape"):
        shutil.copy(good, tmp_path / "sent" / name)
    (tmp_path / "sent/cut.tape").write_bytes(good.read_bytes()[:-8000])
    (tmp_path / "sent/link.tape").symlink_to("/etc/passwd")
    tar = f"cd {tmp_path}/sent && tar -cPf - --transform=s,evil,../evil,"
    for listed, sent, made, why in (
        ("../evil.tape\\0/etc/x.tape\\0", "true", 0, "../evil.tape: not the name of a tape"),
        ("./a.tape\\0", f"{tar} evil.tape", 0, "../evil.tape: was not asked for"),
        ("./b.tape\\0./link.tape\\0", f"{tar} b.tape link.tape", 1, "link.tape: was not asked for"),
        ("./cut.tape\\0", f"{tar} cut.tape", 0, f"{here}/cut.tape"),
        ("./c.tape\\0", "head -c 100 /dev/urandom", 0, "ended with status"),
        ("./c.tape\\0", f"{tar} b.tape | head -c 5000; exit 3", 0, ""),
    ):
        said = pagetape("pull", "web1:x", here, "--ssh", _lying(tmp_path / "ssh", listed, sent))
        assert said.status == 1 and "Traceback" not in said.err and why in said.err, said.err
        assert len(list(here.glob("*.tape"))) == made, said.err
        assert not away.exists() and not [*here.glob(".*")]
        shutil.rmtree(here)


def test_a_place_has_a_user_or_an_address() -> None:
    assert pull.Place.of("root@web1:/a:b") == pull.Place("root@web1", "/a:b")
    assert pull.Place.of("[fe80::1]:a") == pull.Place("fe80::1", "a")
    assert pull.Place.of("web1:") == pull.Place("web1", ".")
    with pytest.raises(TapeError):
        pull.Place.of("/a/b")
