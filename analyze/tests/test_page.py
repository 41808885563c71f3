# SPDX-License-Identifier: Apache-2.0
"""The page of `pagetape html`: its time axes, its parts, and how a browser shows it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import livetest
import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.pages.page import page
from pagetape.pages.timeline import Frame, Segment, chart, equal
from pagetape.schemas.tape import Tape


def test_a_chart_draws_nothing_before_its_first_and_after_its_last_sample() -> None:
    frame = Frame(100, 10, "pages", dots=True)
    drawn = chart({"freed": [Segment(20, 30, 5), Segment(30, 50, 7)]}, frame)
    assert f"M{frame.x(20):.2f}" in drawn and f"H{frame.x(50):.2f}" in drawn
    assert drawn.count('class="dot freed"') == 2 and drawn.count('class="hover"') == 2
    assert "<title>20.00 to 30.00 s: freed 5 pages</title>" in drawn
    apart = chart({"freed": [Segment(20, 30, 5), Segment(40, 50, 7)]}, frame)
    assert apart.count('class="hover"') == 2  # and none in the gap
    assert f"M{frame.x(40):.2f}" in apart


def test_the_last_interval_ends_with_the_tape() -> None:
    assert equal([1, 2, 3], 0.4, 1.0) == [(0, 0.4, 1), (0.4, 0.8, 2), (0.8, 1.0, 3)]
    assert equal([1, 0, 0], 0.4, 0.3) == [(0, 0.3, 1)]


# A window of chromium is at least 500 pixels wide, a frame in it is not.
FRAME = """<!doctype html><title>none</title>
<script>onmessage = (event) => { document.title = event.data; };</script>
<iframe src="probe.html" style="border: 0; width: %dpx; height: 900px"></iframe>"""
DEMO = Path(__file__).parents[1] / "demo"
PROBE = """<script>
const said = [];
const head = document.querySelectorAll("thead th.n button")[0];
head.focus();
said.push("focus " + (document.activeElement === head));
head.click();
said.push("sort " + head.parentElement.ariaSort);
const filter = document.querySelector("input[type=search]");
filter.value = "no such row"; filter.dispatchEvent(new Event("input"));
said.push("filter " + filter.nextElementSibling.textContent);
const picture = document.querySelector("svg:has([data-tip])");
const press = (node, key) => node.dispatchEvent(new KeyboardEvent("keydown", { key }));
picture.focus();
press(picture, "ArrowRight");
const words = picture.querySelector(".current").dataset.tip;
said.push("arrow " + (document.getElementById("tip").textContent === words));
document.querySelector(".enlarge").click();
said.push("dialog " + document.querySelector("dialog").open);
const large = document.querySelector("dialog svg");
const whole = large.getAttribute("viewBox"), shown = () => large.viewBox.baseVal.width;
const before = shown();
press(large, "+");
said.push("zoom " + (shown() < before));
press(large, "0");
said.push("all " + (large.getAttribute("viewBox") === whole));
said.push("width " + innerWidth);
said.push("scroll " + (document.documentElement.scrollWidth - innerWidth));
parent.postMessage(said.join("; "), "*");
</script></body>"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "server.html"
    file.write_text(page([Tape(DEMO / "server.tape")]))
    return file


def test_the_page_begins_with_findings_and_has_contents_and_glossary(shown: Path) -> None:
    text = shown.read_text()
    assert len(text) < 3e6 and "://" not in text
    links = re.findall(r'<a href="#([^"]+)">', text)
    assert links[0] == "what-matters" and links[-1] == "glossary"
    assert all(text.count(f'<h2 id="{link}">') == 1 for link in links)
    findings = text.partition('<h2 id="what-matters">')[2].partition("</section>")[0]
    assert "Kernel pages in MOVABLE pageblocks" in findings and "frontend" in findings


def test_the_cells_of_the_picture_are_all_fallbacks_that_mix() -> None:
    tape = Tape(DEMO / "server.tape")
    with Database([tape]) as db:
        cells = db.run(
            query.internal()["fallback_grid"], {"interval_ms": 100, "lines": 7}
        ).objects()
        ((mixing, nr),) = db.ask(
            "SELECT count(*) FILTER (below_pageblock), count(*) FROM extfrag"
        ).rows
    assert (sum(row["mixing"] for row in cells), sum(row["nr"] for row in cells)) == (mixing, nr)
    assert {row["line"] for row in cells} <= set(range(7))
    assert all(row["first_pfn"] < row["past_pfn"] for row in cells)
    zones = [row for row in tape.rows("zone") if row["snapshot"] == 0 and row["spanned"]]
    assert min(row["start_pfn"] for row in zones) <= min(row["first_pfn"] for row in cells)


def test_a_replay_shows_the_lengths_of_its_lists(
    tmp_path: Path, pagetape: Callable[..., Any]
) -> None:
    run = tmp_path / "run.tape"
    assert pagetape("replay", DEMO / "pressure.tape", "--ensemble", 0, "-o", run).status == 0
    with Database([Tape(run)]) as db:
        rows = db.run(query.internal()["list_lengths"], {"interval_ms": 500}).objects()
        ((most,),) = db.ask(
            "SELECT sum(most) FROM pcp_occupancy GROUP BY ts ORDER BY 1 DESC LIMIT 1"
        ).rows
    assert all(0 <= row["fullest"] <= row["all_pages"] <= most for row in rows)
    assert any(row["all_pages"] for row in rows)


def test_no_header_of_a_table_is_the_name_of_a_column(shown: Path) -> None:
    heads = re.findall(r"<th[^>]*>(.*?)</th>", shown.read_text())
    assert len(heads) > 20 and not [head for head in heads if "_" in head]


@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_sorts_filters_and_enlarges_without_an_error(
    width: int, shown: Path, tmp_path: Path
) -> None:
    chromium = shutil.which("chromium")
    if chromium is None:
        livetest.skip("chromium is not installed")
    probe = tmp_path / "probe.html"
    script = PROBE.partition("<script>")[2].partition("</script>")[0].encode()
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    allowed = shown.read_text().replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    probe.write_text(allowed.replace("</body>", PROBE))
    whole = tmp_path / "whole.html"
    whole.write_text(FRAME % width)
    flags = "--headless=new --no-sandbox --disable-gpu --dump-dom --enable-logging=stderr --v=0"
    own = (f"--user-data-dir={tmp_path}/profile", "--window-size=1400,1000", whole.as_uri())
    done = subprocess.run(
        [chromium, *flags.split(), *own],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"HOME": str(tmp_path)},
    )
    title = re.search(r"<title>(focus .*?)</title>", done.stdout)
    assert title and "CONSOLE" not in done.stderr, done.stderr
    said = dict(part.split(" ", 1) for part in title[1].split("; "))
    assert said["focus"] == "true" and said["sort"] == "descending"
    assert said["filter"].startswith("0 of ") and said["dialog"] == "true"
    assert said["arrow"] == said["zoom"] == said["all"] == "true"
    assert int(said["width"]) == width and int(said["scroll"]) <= 0
