# SPDX-License-Identifier: Apache-2.0
"""HTML that all pages share: the document around the sections, legends and tables."""

from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from pagetape import answer
from pagetape.answer import markup
from pagetape.replaying import NOT_MODELLED

MARK = b'<meta name="generator" content="pagetape'  # in every page


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page: head, style and footer around the parts."""
    footer = (
        f"<footer>pagetape {version('pagetape')}. Tier A: placement, the model's choices "
        "under the recorded requests. Tier B: feedback of reclaim and compaction, which R1 and "
        "R2 model and R0 only counts. Not modelled: "
        f"{', '.join(NOT_MODELLED)}.</footer>"
    )
    css = files("pagetape.pages").joinpath("page.css").read_text("utf-8")
    script = files("pagetape.pages").joinpath("page.js").read_text("utf-8")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    text = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        # A page fetches nothing, and runs its own script alone.
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'{MARK.decode()} {version("pagetape")}">'
        f"<title>{markup(title)} - pagetape</title><style>{css}</style></head>"
        f"<body>{''.join(parts)}{footer}<script>{script}</script></body></html>\n"
    )
    return answer.visible(text, keep="\n")


def legend(names: dict[str, str]) -> str:
    items = "".join(
        f'<span><i style="background:var(--{name})"></i>{markup(words)}</span>'
        for name, words in names.items()
    )
    return f'<div class="legend">{items}</div>'


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    intervals: Collection[str] = (),
    faint: tuple[str, ...] = (),
) -> str:
    """A table; `intervals` are further columns of numbers, cells that begin with words of `faint`
    are grey."""
    numeric = [
        name in intervals or any(is_number(row[i]) for row in rows)
        for i, name in enumerate(columns)
    ]

    def line(tag: str, values: Sequence[Any]) -> str:
        cells = []
        for value, number in zip(values, numeric, strict=True):
            words = f"{value:,}" if number and is_number(value) else answer.cell(value)
            kind = " class=n" if number else " class=within" if words.startswith(faint) else ""
            cells.append(f"<{tag}{kind}>{markup(words)}</{tag}>")
        return f"<tr>{''.join(cells)}</tr>"

    lines = "".join(line("td", row) for row in rows)
    head = f"<thead>{line('th', columns)}</thead>"
    return f'<div class="scroll" tabindex="0"><table>{head}<tbody>{lines}</tbody></table></div>'


def no_data(words: str) -> str:
    return f"<p>{markup(words)}</p>"
