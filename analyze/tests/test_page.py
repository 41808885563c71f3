# SPDX-License-Identifier: Apache-2.0
"""The page of `pagetape html`: its time axes, its parts, and how a browser shows it."""

from __future__ import annotations

from pagetape.pages.timeline import Frame, Segment, chart, equal


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
