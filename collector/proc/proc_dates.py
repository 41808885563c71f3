# SPDX-License-Identifier: Apache-2.0
"""Dates as people and programs write them: lines of a log, and names of files and directories.

    proc_dates.of_line("Mon Nov 21 06:15:00 CET 2016")     # seconds since 1970, or None
    proc_dates.of_name("zoneinfo.2016-11-21T061500")

A date without a time zone counts as UTC: the differences are right unless the clocks change.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

# How the name of each month begins: English, German, French, Spanish, Italian, Portuguese.
_MONTHS = (
    ("jan", "ene", "gen"),
    ("feb", "fév", "fev"),
    ("mar", "mär", "mrz"),
    ("apr", "avr", "abr"),
    ("may", "mai", "mag"),
    ("jun", "juin", "giu"),
    ("jul", "juil", "lug"),
    ("aug", "aoû", "ago"),
    ("sep", "set"),
    ("oct", "okt", "ott", "out"),
    ("nov",),
    ("dec", "dez", "déc", "dic"),
)

# Hours east of UTC of the zones that `date` names and that mean one thing; the others count as UTC.
_ZONES = {"utc": 0, "gmt": 0, "z": 0, "wet": 0, "west": 1, "cet": 1, "cest": 2, "eet": 2, "eest": 3}
_ZONES |= {"msk": 3, "jst": 9, "kst": 9, "aest": 10, "aedt": 11, "nzst": 12, "nzdt": 13}
_ZONES |= {"est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7}

_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<part>\d{1,9}))?)?"
_HALF = r"(?: +(?P<half>[AaPp][Mm]))?"
_ZONE = r"(?: *(?P<zone>[A-Za-z]{1,5}|[+-]\d\d(?::?\d\d)?))?"
_DAY = r"(?:[A-Za-zÀ-ÿ]{2,10}\.?,? +)?"
_NAME = r"(?P<name>[A-Za-zÀ-ÿ]{3,9})\.?"
_ISO = (
    r"(?P<year>\d{4})[-/年] ?(?P<month>\d\d?)[-/月] ?(?P<day>\d\d?)(?:日(?: *[^\d\s]+)?)?"
    rf"[T _]+{_TIME}"
)
_EPOCH = r"(?P<epoch>1\d{9})\.?(?P<part>\d{1,9})?"

_MARKS = r"(?:(?:zzz|[Tt]ime(?:stamp)?|[Dd]ate)\b[ :=]*)?[\s*#=<>\[\]-]*"
_FORMS = (
    rf"{_DAY}{_NAME} +(?P<day>\d{{1,2}}),? +{_TIME}{_HALF}{_ZONE} +(?P<year>\d{{4}})",
    rf"{_DAY}(?P<day>\d{{1,2}})\.?[ -]{_NAME}[ -](?P<year>\d{{4}}),? +{_TIME}{_HALF}{_ZONE}",
    rf"{_DAY}(?P<day>\d{{1,2}})\.? +{_NAME} +{_TIME}{_ZONE} +(?P<year>\d{{4}})",
    rf"{_ISO}{_ZONE}",
    rf"(?P<day>\d\d?)\.(?P<month>\d\d?)\.(?P<year>\d{{4}}),? +{_TIME}{_ZONE}",
    rf"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{{4}}) {_TIME}> subcount: \d+",  # ExaWatcher
    r"(?P<year>20\d\d)(?P<month>\d\d)(?P<day>\d\d)[-_T ]?(?P<hour>\d\d)(?P<minute>\d\d)"
    r"(?P<second>\d\d)",
    _EPOCH,
)
# Whole lines, behind marks such as "===", "time:" or OSWatcher's "zzz ***".
_LINES = tuple(re.compile(rf"{_MARKS}{pattern}[\s*#=<>:\]-]*", re.ASCII) for pattern in _FORMS)
_INSIDE = tuple(re.compile(rf"(?<![\w:]){pattern}(?![\d:])", re.ASCII) for pattern in _FORMS[:4])
# Before each line of a program: its date, and what syslog, a journal or Kubernetes add to it.
_STAMPS = tuple(
    re.compile(
        rf"(?:<\d{{1,3}}>(?:1 )?)?\[?{pattern}\]?:?(?: std(?:out|err) [FP]"
        r"| \S+ [\w/.-]+(?:\[\d+\])?:| \S+ \S+ \S+ \S+ (?:-|\[.*?\]))?(?:[ \t,;]|$)",
        re.ASCII,
    )
    for pattern in (
        rf"{_ISO}(?P<zone>Z|[+-]\d\d:?\d\d)?",
        _EPOCH,
        rf"(?P<name>[A-Z][a-z][a-z]) +(?P<day>\d\d?) {_TIME}",
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


def _seconds(found: re.Match[str], year: int = 0) -> float | None:
    """The time that a date names, in `year` if it has none; None if no calendar has it."""
    part = {"year": str(year)} | found.groupdict()
    fraction = float(f"0.{part.get('part') or 0}")
    if part.get("epoch"):
        return int(part["epoch"]) + fraction
    hour = int(part.get("hour") or 0)
    if half := part.get("half"):
        hour = hour % 12 + 12 * (half.lower() == "pm")
    name = (part.get("name") or "").lower()
    months = [nr for nr, names in enumerate(_MONTHS, 1) if name.startswith(names)]
    if name and not months:
        return None
    month = months[0] if name else int(part["month"])
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


def of_label(line: str) -> float | None:
    """Seconds since 1970 of the date in a short line of other words; None for other lines."""
    if not 10 <= len(line) <= 80 or ":" not in line or not any(map(str.isdigit, line)):
        return None
    found = next(filter(None, (pattern.search(line) for pattern in _INSIDE)), None)
    return _seconds(found) if found else None


def of_stamp(line: str, changed: float) -> tuple[float | None, str]:
    """Seconds since 1970 of the date before a line, and the line; None for other lines.

    A date without a year is the last one before `changed`, when the file was changed last.
    """
    for pattern in _STAMPS if line[:1] in "[<0123456789JFMASOND" and len(line) > 1 else ():
        if found := pattern.match(line):
            year = datetime.fromtimestamp(changed, UTC).year
            dates = [_seconds(found, one) for one in (year, year - 1)]
            past = [one for one in dates if one is not None and one < changed + 86_400]
            return (past or dates)[0], line[found.end() :]
    return None, line


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
