# SPDX-License-Identifier: Apache-2.0
"""Which objects of a bucket a question over a fleet reads: counted by the server's log."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import s3_server
from archives import allocs, fallbacks, made

from pagetape.archive import names
from pagetape.archive.store import open_store
from pagetape.indexing import manifest
from pagetape.indexing.compact import Compactor, dates
from pagetape.schemas.tape import Tape

Run = Callable[..., Any]
URL = f"s3://{s3_server.BUCKET}/questions"
pytestmark = pytest.mark.usefixtures("fleet")

DAYS = ("2026-11-27", "2026-11-28", "2026-11-29")


@pytest.fixture(scope="module")
def server() -> Iterator[s3_server.Server]:
    with s3_server.Server() as found:
        yield found


@pytest.fixture(autouse=True)
def environment(server: s3_server.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server, and an empty cache."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def fleet(server: s3_server.Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An archive of three days and two kernels; the names of its tapes."""
    place = tmp_path_factory.mktemp("tapes")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        store, found = open_store(URL), {}
        for day in DAYS:
            for host, kernel in (("a", "6.12.5"), ("b", "6.18.1")):
                rows = fallbacks(4) + allocs(5)
                path = made(place, host, f"{day}T10:00:00", 3600, rows, kernel=kernel)
                found[f"{host} {day}"] = names.object_name(Tape(path))
                store.put_new(found[f"{host} {day}"], path)
        for day in dates(store):
            Compactor(store).run(day)
    return found


def read(server: s3_server.Server, ask: Callable[[], Any]) -> tuple[Any, set[str]]:
    """The answer, and the names of the objects that were read for it."""
    server.proxy.requests.clear()
    said = ask()
    with server.proxy.lock:
        gets = [unquote(path) for method, path in server.proxy.requests if method == "GET"]
        assert {method for method, _ in server.proxy.requests} <= {"GET", "HEAD"}
    found = (re.search(r"/questions/(.*)", path.partition("?")[0]) for path in gets)
    return said, {one[1] for one in found if one and one[1]}


def test_an_aggregate_reads_the_index_and_its_table_of_the_day(
    server: s3_server.Server, pagetape: Run
) -> None:
    def ask() -> Any:
        where = ["--where", "kernel LIKE '6.12%'", "--since", DAYS[2], "--by", "kernel", "--json"]
        return pagetape("report", "extfrag.by_migratetype", URL, *where).json

    said, names_read = read(server, ask)
    assert [(row["kernel"], row["nr"], row["hosts"]) for row in said["rows"]] == [("6.12.5", 4, 1)]
    now = manifest.latest(open_store(URL), DAYS[2])
    read_too = ".tape.parquet"  # its identities are compared with the list of tapes
    wanted = ("hosts_tape.parquet", "hosts_extfrag.parquet", read_too)
    files = {one for one in now.files if one.endswith(wanted)}
    assert len(files) == 3
    assert names_read == {f"index/v1/manifest/date={DAYS[2]}/00000001.json", *files}
    _, again = read(server, ask)
    assert again == {f"index/v1/manifest/date={DAYS[2]}/00000001.json"}  # files are kept


def test_a_kernel_of_no_tape_reads_no_aggregate(server: s3_server.Server, pagetape: Run) -> None:
    ask = ["report", "extfrag.by_order", URL, "--where", "kernel LIKE '5%'", "--json"]
    said, names_read = read(server, lambda: pagetape(*ask).json)
    assert said["rows"] == [] and said["fleet"]["hosts"] == 0
    assert not any("extfrag" in name for name in names_read)
    assert sum(name.endswith(".hosts_tape.parquet") for name in names_read) == len(DAYS)


def test_a_drill_down_fetches_the_named_tapes_only(
    fleet: dict[str, str], server: s3_server.Server, pagetape: Run
) -> None:
    def ask() -> Any:
        where = ["--where", "host = 'b'", "--since", DAYS[1], "--until", DAYS[2], "--json"]
        return pagetape("report", "extfrag.over_time", URL, *where).json

    said, names_read = read(server, ask)
    tapes = {name for name in names_read if name.startswith("v1/")}
    assert tapes == {fleet[f"b {DAYS[1]}"]}
    assert {row["tape"] for row in said["rows"]} == {Path(*tapes).stem}
    _, again = read(server, ask)
    assert not any(name.startswith("v1/") for name in again)


def test_a_tape_of_a_bucket_is_a_tape_argument_and_a_whole_archive_is_not(
    fleet: dict[str, str], server: s3_server.Server, pagetape: Run
) -> None:
    name = fleet[f"b {DAYS[0]}"]
    asked = ("report", "extfrag.by_order", f"{URL}/{name}", "--json")
    said, names_read = read(server, lambda: pagetape(*asked).json)
    assert sum(row["nr"] for row in said["rows"]) == 4 and names_read == {name}
    for command in ("info", "diagnose"):
        assert pagetape(command, f"{URL}/{name}").status == 0
        gone = pagetape(command, f"{URL}/{name.replace(DAYS[0], '2026-11-01')}")
        assert (gone.status, gone.err.count("\n")) == (1, 1) and "no such object" in gone.err
    for words in ("diagnose", "validate", f"compare {URL}/{name}", "import -o x"):
        whole = pagetape(*words.split(), URL)
        assert (whole.status, whole.err.count("\n")) == (2, 1)
        assert f"{URL}: an archive; this command takes tapes of it" in whole.err


def test_a_bucket_that_fails_now_and_then_changes_no_answer(
    server: s3_server.Server, pagetape: Run
) -> None:
    ask = ["report", "extfrag.by_order", URL, "--json"]
    expected = pagetape(*ask).json
    server.proxy.failing = 0.3
    try:
        assert pagetape(*ask).json == expected
    finally:
        server.proxy.failing = 0.0


def test_the_cache_has_a_bound(
    tmp_path: Path, pagetape: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies that no question uses any more make room for those of the next."""
    from pagetape.indexing import copies

    monkeypatch.setattr(copies, "MOST", 1)
    ask = ["report", "extfrag.over_time", URL, "--where"]
    assert pagetape(*ask, "host = 'a'").status == 0
    kept = {path.name for path in (tmp_path / "cache").rglob("*.tape")}
    assert pagetape(*ask, "host = 'b'").status == 0
    now = {path.name for path in (tmp_path / "cache").rglob("*.tape")}
    assert len(kept) == len(now) == len(DAYS) and kept.isdisjoint(now)
