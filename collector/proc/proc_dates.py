# SPDX-License-Identifier: Apache-2.0
"""Dates as people and programs write them: lines of a log, and names of files and directories.

    proc_dates.of_line("Mon Nov 21 06:15:00 CET 2016")     # seconds since 1970, or None
    proc_dates.of_name("zoneinfo.2016-11-21T061500")

A date without a time zone counts as UTC: the differences are right unless the clocks change.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

# Hours east of UTC of the zones that `date` names and that mean one thing; the others count as UTC.
_ZONES = {"utc": 0, "gmt": 0, "z": 0, "wet": 0, "west": 1, "cet": 1, "cest": 2, "eet": 2, "eest": 3}
_ZONES |= {"msk": 3, "jst": 9, "kst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13}
_ZONES |= {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}

_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?"
_HALF = r"(?: +(?P<half>[AaPp][Mm]))?"
_ZONE = r"(?: *(?P<zone>[A-Za-z]{1,5}|[+-]\d\d(?::?\d\d)?))?"
_DAY = r"(?:[A-Za-z]{2,4}\.?,? +)?"

# Whole lines, behind marks such as "===" or OSWatcher's "zzz ***".
_LINES = tuple(
    re.compile(rf"(?:zzz +)?[\s*#=<>\[\]-]*{pattern}[\s*#=<>:\]-]*", re.ASCII)
    for pattern in (
        rf"{_DAY}(?P<name>[A-Z][a-z][a-z]) +(?P<day>\d{{1,2}}),? +{_TIME}{_HALF}{_ZONE}"
        r" +(?P<year>\d{4})",
        rf"{_DAY}(?P<day>\d{{1,2}})[ -](?P<name>[A-Z][a-z][a-z])[ -](?P<year>\d{{4}}),? +{_TIME}"
        rf"{_HALF}{_ZONE}",
        rf"(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _]+{_TIME}{_ZONE}",
        r"(?P<epoch>1\d{9})(?:\.(?P<part>\d{1,9}))?",
    )
)
_NAMES = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"(?<!\d)(?P<year>20\d\d)-?(?P<month>[01]\d)-?(?P<day>[0-3]\d)[-T_. ]?"
        r"(?P<hour>[0-2]\d)[-:h._]?(?P<minute>[0-5]\d)(?:[-:m._]?(?P<second>[0-5]\d))?"
        r"(?P<zone>Z|[+-]\d{4})?(?!\d)",
        r"(?<!\d)(?P<epoch>1\d{9})(?:\.(?P<part>\d{1,9}))?(?!\d)",
    )
)
_DAYS = re.compile(r"(?<!\d)(?P<year>20\d\d)-?(?P<month>[01]\d)-?(?P<day>[0-3]\d)(?!\d)", re.ASCII)


def _zone(text: str | None) -> timezone:
    if text is None or text[0] not in "+-":
        return timezone(timedelta(hours=_ZONES.get((text or "z").lower(), 0)))
    digits = text[1:].replace(":", "")
    shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(shift if text[0] == "+" else -shift)


def _seconds(found: re.Match[str]) -> float | None:
    """The time that a date names; None if no calendar has it."""
    part = found.groupdict()
    fraction = float(f"0.{part.get('part') or 0}")
    if part.get("epoch"):
        return int(part["epoch"]) + fraction
    hour = int(part.get("hour") or 0)
    if half := part.get("half"):
        hour = hour % 12 + 12 * (half.lower() == "pm")
    name = (part.get("name") or "").lower()
    if name and name not in _MONTHS:
        return None
    month = _MONTHS.index(name) + 1 if name else int(part["month"])
    try:
        at = datetime(
            int(part["year"]),
            month,
            int(part["day"]),
            hour,
            int(part.get("minute") or 0),
            min(int(part.get("second") or 0), 59),
            tzinfo=_zone(part.get("zone")),
        )
    except ValueError:
        return None
    seconds = (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() + fraction
    return seconds if seconds > 0 else None


def of_line(line: str) -> float | None:
    """Seconds since 1970 of a line that is a date and nothing else; None for other lines."""
    if not 10 <= len(line) <= 80 or not any(map(str.isdigit, line)):
        return None
    for pattern in _LINES:
        if found := pattern.fullmatch(line):
            return _seconds(found)
    return None


def of_name(name: str) -> float | None:
    """Seconds since 1970 of the date in the name of a file or directory; None without one."""
    for pattern in _NAMES:
        if (found := pattern.search(name)) and (seconds := _seconds(found)) is not None:
            return seconds
    return None


def of_day(name: str) -> float | None:
    """Seconds since 1970 at the begin of the day in a name; None without one."""
    found = _DAYS.search(name)
    return _seconds(found) if found else None
