# SPDX-License-Identifier: Apache-2.0
"""Memory state of one machine over time, from what somebody stored of /proc.

A directory of dated copies, a sosreport, a log of repeated `cat`s, or the series of a monitor: see
proc_sources.py, proc_log.py and proc_metrics.py. The content tells what a text is. Its date is the
one above it in its file, or else the one in the name of the file or of a directory, or else the
time at which the file was changed last.

    series = proc_series.read(path)
    for moment in series.moments:
        moment.texts["buddyinfo"]      # text, and when it was read
    series.limits                      # what was left out, and what is unknown
"""

from __future__ import annotations

import errno
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pagetape import proc_dates, proc_form, proc_log, proc_sources
from pagetape.proc_agree import growing, has_restarted

_NS = 1_000_000_000
_DAY = 86_400
_TOGETHER = 30.0  # most seconds between the texts of one moment
_SHOWN = 3  # texts that were left out, in a message
_MOST_BYTES = 1 << 30  # of all texts, packed

_FACTS = ("meminfo", "version", "uname", "sysctls", "config")

NO_DATES = (
    "the copies have no dates: they are in their order, and rates and times are unknown"
    " (--interval tells the time between two copies)"
)


class _Text(NamedTuple):
    """One text of a file of /proc, packed; `date` in s since 1970."""

    name: str
    packed: bytes
    date: float | None
    where: str  # file and line, in words
    zones: frozenset[tuple[str, str]]

    @property
    def text(self) -> str:
        return zlib.decompress(self.packed).decode()


@dataclass
class Moment:
    """What is known of one moment. Time in ns since 1970, 0 if unknown; one of each file's own."""

    ts: int
    times: dict[str, int] = field(default_factory=dict)
    _texts: dict[str, _Text] = field(default_factory=dict)

    def add(self, text: _Text, ts: int) -> None:
        self._texts[text.name] = text
        self.times[text.name] = ts

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str) -> str | None:
        """The text of a file at that moment."""
        found = self._texts.get(name)
        return found and found.text


@dataclass
class Series:
    """The moments in their order, texts of facts that do not change, and what is not known."""

    moments: list[Moment] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)


class _Reader:
    """Collects the texts of all files."""

    def __init__(self) -> None:
        self.texts: list[_Text] = []
        self.facts: dict[str, str] = {}
        self.damaged: list[str] = []  # texts that were left out: where, and why
        self.broken: list[str] = []  # files that could not be read to their end
        # Texts whose date is that of the last change of their file, by its name without "zoneinfo"
        # and the like: copies of one moment have the rest of the name in common.
        self._by_change: dict[str, list[_Text]] = defaultdict(list)
        self._bytes = 0

    def take(self, source: proc_sources.Source, *, whole: bool) -> None:
        """Take the texts of one file; `whole`: look at all of it, however it begins."""
        if whole or proc_log.has_part(source.head):
            first = len(self.texts)
            before: dict[str, _Text] = {}
            for part in proc_log.parts(source.lines(), source.changed, source.head):
                self._part(part, str(source.place), before)
            self.texts[first:] = self._dated(self.texts[first:], source)
        if source.broken:
            self.broken.append(f"{source.place}: {source.broken}")

    def _part(self, part: proc_log.Part, place: str, before: dict[str, _Text]) -> None:
        if part.name in _FACTS:
            known = self.facts.get(part.name)
            if known is None or part.name == "sysctls":  # an error in between cuts its lines
                self.facts[part.name] = (known or "") + part.text
            return
        where = f"{place} line {part.line}"
        zones = proc_log.zones(part)
        try:
            text = part.text if part.made else _checked(part)
        except proc_form.FormError as e:
            self.damaged.append(f"{place}: {e}")
            text = None
        found = _Text(part.name, zlib.compress((text or "").encode(), 1), part.date, where, zones)
        last = before.get(part.name)
        before[part.name] = found
        if last and last.date == part.date and zones and zones.isdisjoint(last.zones):
            # Lines of another kind between the zones: both are parts of one text.
            self.damaged.append(f"{where}: {part.name} is in pieces")
            self.texts[-1:] = [one for one in self.texts[-1:] if one is not last]
            return
        if text is not None:
            self._bytes += len(found.packed)
            if self._bytes > _MOST_BYTES:
                raise OSError(errno.EFBIG, "more than 1 GiB of packed copies: import less at once")
            self.texts.append(found)

    def _dated(self, found: list[_Text], source: proc_sources.Source) -> list[_Text]:
        """The texts of one file with their dates; those before its first date have none."""
        names = Counter(text.name for text in found)
        if any(text.date is not None for text in found) or max(names.values(), default=0) > 1:
            return found
        date = _of_place(source.place, source.changed)
        if date is not None:
            return [text._replace(date=date) for text in found]
        for text in found:
            rest = f"{source.place.parent}/{source.place.name.replace(text.name, '')}"
            self._by_change[rest].append(text._replace(date=source.changed))
        return []

    def end(self, *, in_order: bool) -> list[str]:
        """All files are read: place those without a date of their own. Returns lines about it.

        `in_order`: their order counts, not their last change.
        """
        if not self._by_change:
            return []
        groups = sorted(self._by_change.items(), key=lambda group: _in_order(group[0]))
        dates = [min(text.date or 0 for text in texts) for _, texts in groups]
        known = not in_order and (all(a < b for a, b in pairwise(dates)) or _apart(dates))
        for (_, texts), date in zip(groups, dates, strict=True):
            self.texts += [text._replace(date=date if known else None) for text in texts]
        if in_order or len(groups) == 1:
            return []
        if known:
            return ["the dates of the copies are those at which their files were changed last"]
        return [
            "the files were changed in another order than their names have: their dates are unknown"
        ]


def _in_order(name: str) -> tuple[object, ...]:
    """A key that sorts names as people number them; "before" comes before "after"."""
    parts = re.split(r"(\d+)", name.replace("before", "a"))
    return tuple((int(part), "") if part.isdecimal() else (0, part) for part in parts)


def _apart(dates: list[float]) -> bool:
    """Whether the dates are so far apart that no command copied the files together."""
    return all(other - one >= 1 for one, other in pairwise(sorted(dates)))


def _checked(part: proc_log.Part) -> str:
    """The unfolded text; FormError with the number of the line in its file."""
    try:
        return proc_form.checked(part.name, part.text.encode())
    except proc_form.FormError as e:
        shifted = re.sub(
            r"^line (\d+)", lambda found: f"line {int(found[1]) + part.line - 1}", str(e)
        )
        raise proc_form.FormError(f"{part.name}, {shifted}") from None


def _of_place(place: PurePosixPath, changed: float) -> float | None:
    """The date in the name of the file, or of the nearest directory that has one."""
    for name in reversed(place.parts):
        if (date := proc_dates.of_name(name)) is not None:
            return date
    for name in reversed(place.parts):
        if (day := proc_dates.of_day(name)) is not None:
            return None if day - _DAY <= changed < day + 2 * _DAY else day
    return None


def _words(date: float) -> str:
    return datetime.fromtimestamp(date, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _some(places: list[str], what: str) -> list[str]:
    """One line about the places, of which it names the first ones."""
    if not places:
        return []
    more = f"; and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
    return [f"{what} ({len(places):,}): {'; '.join(places[:_SHOWN])}{more}"]


def _by_order(texts: Iterable[_Text], interval: float | None) -> Iterator[Moment]:
    """Moments of texts without dates: a file that comes again is of the next one."""
    moment, nr = Moment(0), 0
    for text in texts:
        if text.name in moment:
            yield moment
            nr += 1
            moment = Moment(0)
        # The first second of 1970 has the first one: 0 is an unknown time.
        moment.ts = moment.ts or (0 if interval is None else _NS + round(nr * interval * _NS))
        moment.add(text, moment.ts)
    if moment.times:
        yield moment


def _by_date(texts: list[tuple[float, _Text]], again: list[str]) -> Iterator[Moment]:
    """Moments of dated texts; `again` gets those that have the date of another one."""
    last: dict[str, float] = {}
    least = 2 * _TOGETHER
    for date, text in texts:
        if text.name in last and date > last[text.name]:
            least = min(least, date - last[text.name])
        last[text.name] = date
    moment: Moment | None = None
    for date, text in texts:
        ts = round(date * _NS)
        if moment is not None and text.name in moment and moment.times[text.name] == ts:
            if moment.text(text.name) != text.text:
                again.append(text.where)
            continue
        if moment is None or text.name in moment or ts - moment.ts > least / 2 * _NS:
            if moment is not None:
                yield moment
            moment = Moment(ts)
        moment.add(text, ts)
    if moment is not None:
        yield moment


def _cut(texts: list[_Text]) -> tuple[list[_Text], list[str]]:
    """The texts without those that lack zones which both neighbours have; where these are."""
    by_name: dict[str, list[_Text]] = defaultdict(list)
    for text in texts:
        by_name[text.name].append(text)
    out: list[str] = []
    cut: set[int] = set()
    for found in by_name.values():
        before: _Text | None = None
        for nr, text in enumerate(found):
            after = found[nr + 1] if nr + 1 < len(found) else before
            beside = [one for one in (before or after, after) if one is not None]
            if beside and all(text.zones < one.zones for one in beside):
                cut.add(id(text))
                lacks = sorted(beside[0].zones - text.zones)[0]
                out.append(f"{text.where}: {text.name} without Node {lacks[0]}, zone {lacks[1]}")
            else:
                before = text
    return [text for text in texts if id(text) not in cut], out


def _of_one_boot(moments: list[Moment]) -> tuple[list[Moment], list[str]]:
    """The longest run of moments between restarts, and a line about the others."""
    starts = [0]
    before: dict[str, int] | None = None
    for nr, moment in enumerate(moments):
        if (text := moment.text("vmstat")) is None:
            continue
        now = growing(text)
        if before is not None and has_restarted(before, now):
            starts.append(nr)
        before = now
    runs = [moments[begin:end] for begin, end in pairwise([*starts, len(moments)])]
    longest = max(runs, key=len, default=[])
    if len(runs) < 2:
        return longest, []
    first, last = (_words(one.ts / _NS) for one in (longest[0], longest[-1]))
    return longest, [
        f"the counters of vmstat fell {len(runs) - 1} times: the copies are of {len(runs)} boots or"
        f" machines; this tape has {first} to {last}, {len(moments) - len(longest):,} moments are"
        " left out: import them from a directory of their own"
    ]


def _moments(reader: _Reader, interval: float | None) -> tuple[list[Moment], list[str]]:
    dated = [(t.date, t) for t in reader.texts if t.date is not None]
    undated = [t for t in reader.texts if t.date is None]
    dated.sort(key=lambda one: one[0])
    ordered = [text for _, text in dated] if dated else undated
    kept, lacking = _cut(ordered)
    limits = _some(lacking, "cut copies were left out")
    if not dated:
        moments = list(_by_order(kept, interval))
        alone = len(moments) > 1 and interval is None
        return moments, limits + [NO_DATES] * alone
    again: list[str] = []
    those = {id(text) for text in kept}
    moments = list(_by_date([one for one in dated if id(one[1]) in those], again))
    limits += _some([text.where for text in undated], "copies without a date were left out")
    limits += _some(again, "copies with the date of another one were left out")
    return moments, limits


def _absent(moments: list[Moment]) -> list[str]:
    """What no copy, or only some, can tell."""
    unknown = {
        "zoneinfo": "watermarks, reserves and the sizes of zones",
        "buddyinfo": "free blocks by order",
        "pagetypeinfo": "free blocks and pageblocks by migratetype, and the order of pageblocks,",
        "vmstat": "rates of allocation, reclaim and compaction",
    }
    lines = []
    for name, what in unknown.items():
        nr = sum(name in moment for moment in moments)
        if name == "buddyinfo" and not nr and any("pagetypeinfo" in m for m in moments):
            continue
        if nr == 0:
            lines.append(f"no {name}: {what} are unknown")
        elif nr < len(moments):
            lines.append(f"{name} at {nr:,} of {len(moments):,} moments")
    return lines


def read(
    path: Path,
    interval: float | None = None,
    progress: Callable[[str], None] = lambda _place: None,
) -> Series:
    """The moments in `path`. `interval`: seconds between two copies without dates.

    Raises OSError if there is none.
    """
    reader = _Reader()
    single = not path.is_dir()
    for source in proc_sources.sources(path):
        progress(str(source.place))
        reader.take(source, whole=single)
    by_change = reader.end(in_order=interval is not None)
    moments, limits = _moments(reader, interval)
    moments, boots = _of_one_boot(moments)
    damage = _some(reader.damaged, "damaged copies were left out")
    damage += _some(reader.broken, "files cannot be read to their end")
    if not moments:
        why = "; ".join([*damage, *limits]) or (
            "no copies of /proc/zoneinfo, buddyinfo, pagetypeinfo or vmstat in it"
        )
        raise OSError(errno.ENOENT, why, str(path))
    return Series(moments, reader.facts, [*damage, *by_change, *limits, *boots, *_absent(moments)])


def is_series(path: Path) -> bool:
    """Whether the path is a directory or an archive, or a text with memory state at its begin."""
    if path.is_dir():
        return True
    try:
        for source in proc_sources.sources(path):
            return source.place.name != path.name or proc_log.is_of_proc(source.head)
    except OSError:
        pass
    return False
