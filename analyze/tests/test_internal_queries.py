# SPDX-License-Identifier: Apache-2.0
"""The queries that pagetape itself runs: their headers are correct, and they are not reports."""

from typing import Any

import pytest

from pagetape.asking import query
from pagetape.asking.database import Database
from pagetape.schemas import ZONES
from pagetape.tapes import kernel_rows

from .conftest import check_header

VALUES: dict[str, Any] = {"machine_pid": 1 << 23, "zones": list(ZONES), "bin_ns": 1000}


@pytest.mark.parametrize("q", query.internal().values(), ids=lambda q: q.name)
def test_header_is_true(q: query.Query, of_nothing: Database) -> None:
    values = {p.name: VALUES[p.name] for p in q.parameters if p.name in VALUES}
    check_header(of_nothing, q, values)


def test_an_internal_query_is_neither_report_nor_view() -> None:
    assert not query.internal().keys() & query.reports().keys()
    assert not any(name.startswith("internal") for name in query.reports())
    assert {"service", "perfetto.rates"} <= query.internal().keys()


@pytest.mark.parametrize(
    ("release", "orders"),
    [
        ("2.6.31", {0}),
        ("5.13.19", {0}),
        ("5.14.0", {0, 1, 2, 3, 9}),
        ("6.18.1", {0, 1, 2, 3, 9}),
    ],
)
def test_orders_have_lists_by_their_kernel(
    release: str, orders: set[int], of_nothing: Database
) -> None:
    lists = kernel_rows.rules(str(kernel_rows.of_release(release)))["pcp_lists"]
    answer = of_nothing.ask(f"SELECT r FROM range(11) AS t (r) WHERE has_lists(r, 9, '{lists}')")
    assert {row[0] for row in answer.rows} == orders
