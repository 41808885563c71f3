# SPDX-License-Identifier: Apache-2.0
"""The list of contents of a page, and the glossary at its end."""

import re

from pagetape.answer import markup

_HEADING = re.compile(r"<h2>(.*?)</h2>")

GLOSSARY = {
    "page": "The unit of memory, 4 KiB on most machines. Order n is a block of 2^n pages.",
    "pageblock": "An aligned block of pages of the size of a huge page, 2 MiB on most machines.",
    "migratetype": "The kind of pages a pageblock is for: MOVABLE pages (of processes and files) "
    "can be moved by compaction; UNMOVABLE and RECLAIMABLE pages (of the kernel) cannot.",
    "fallback": "A request that took a page of another migratetype, as its own had none.",
    "mixed pageblock": "A pageblock with movable and kernel pages. It cannot become a huge page.",
    "per-CPU list (PCP)": "A CPU's own list of free pages, used without the zone lock. A refill "
    "takes pages from the zone, a drain returns them.",
    "zone, zone lock": "A range of memory of one node; the lock that its free lists share.",
    "reclaim, kswapd": "Freeing of pages in use; the kernel thread that does it ahead of need.",
    "compaction": "Moving of pages so that free pages are contiguous.",
    "stall": "An allocation that waits because it reclaims or compacts by itself.",
    "watermark": "A number of free pages of a zone at which reclaim starts or ends.",
    "unusable free memory": "The share of free memory in blocks too small for an order.",
    "own rules": "A replay under the recording's own kernel and policy: the base of a what-if.",
    "tier": "A: placement under the recorded requests. B: feedback of reclaim and compaction, "
    "which is modelled and less certain.",
    "80 % interval": "A range that holds the true value in 8 of 10 cases, measured on recordings.",
}


def glossary() -> str:
    words = "".join(
        f"<dt>{markup(word)}</dt><dd>{markup(GLOSSARY[word])}</dd>" for word in GLOSSARY
    )
    return f"<section class=wide><h2>Glossary</h2><dl>{words}</dl></section>"


def with_contents(head: str, body: str) -> str:
    """Head and body with a list of the body's sections between them."""
    entries: dict[str, str] = {}

    def heading(found: re.Match[str]) -> str:
        name = re.sub("[^a-z0-9]+", "-", found[1].lower()).strip("-")
        entries[name] = found[1]
        return f'<h2 id="{name}">{found[1]}</h2>'

    body = _HEADING.sub(heading, body)
    items = "".join(f'<li><a href="#{name}">{words}</a></li>' for name, words in entries.items())
    return f"{head}<nav aria-label=Contents><ol>{items}</ol></nav>{body}"
