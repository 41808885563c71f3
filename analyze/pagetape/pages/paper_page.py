# SPDX-License-Identifier: Apache-2.0
"""The page of a paper: its tables as pagetape paper prints them."""

from itertools import groupby
from typing import Any

from pagetape.answer import markup
from pagetape.pages.document import document, table
from pagetape.replaying.paper_model import heading, printed


def paper_page(found: dict[str, Any]) -> str:
    """The HTML for the JSON object of `pagetape paper`."""
    parts = [f"<h1>{markup(found['title'])}</h1>", f"<p>{markup(found['question'])}</p>"]
    parts.append(f"<p>Load: {markup(found['load'])}. Here: {markup(found['here'])}</p>")
    rows = [*found["rows"], *found["unpublished"]]
    for tape, of_tape in groupby(rows, key=lambda row: row.get("tape")) if rows else ():
        parts.append(f"<h2>{markup(tape)}</h2>" if tape else "")
        for name, same in groupby(of_tape, key=lambda row: row["table"]):
            lines = [*same]
            parts += [f"<h3>{markup(heading(name, lines))}</h3>", table(*printed(lines))]
    return document(found["paper"], parts)
