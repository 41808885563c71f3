# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share.

click does not check paths: the code that opens a file reports better errors.
"""

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click

from pagetape.commands import completion

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)


class Quantity(click.ParamType[float]):
    """A number with a unit, such as 90s, 5min or 2GB; without a unit, the first of `units` applies.

    `least` is the smallest allowed value, in that unit.
    """

    def __init__(self, name: str, example: str, units: dict[str, float], least: float) -> None:
        self.name = name
        self._example = example
        self._units = units
        self._least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", str(value).strip())
        if found is None or (found[2] and found[2] not in self._units):
            self.fail(f"'{value}' is not a {self.name} (example: {self._example})", param, ctx)
        unit = self._units[found[2]] if found[2] else next(iter(self._units.values()))
        number = float(found[1]) * unit
        if number < self._least:
            self.fail(f"'{value}' is too small", param, ctx)
        if math.isinf(number):
            self.fail(f"'{value}' is too large", param, ctx)
        return number


class Moment(click.ParamType[float]):
    """A time on a tape in seconds: from its first event, or with a '-' before it from its end."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        seconds = duration().convert(text.removeprefix("-"), param, ctx)
        return -seconds if text.startswith("-") else seconds


class When(click.ParamType[str]):
    """A Moment of a tape, or a time of an archive: a span before now, a day or a time of UTC."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value).strip()
        if _day(text) is None:
            Moment().convert(text, param, ctx)
        return text


def _day(text: str) -> datetime | None:
    """A day or a time in ISO 8601; without a zone in UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.astimezone(UTC).replace(tzinfo=None) if at.tzinfo else at


def moment(name: str, text: str | None) -> float | None:
    """The value of a When option about tapes."""
    if text is not None and _day(text) is not None:
        why = "a tape counts from its first event, as 10s; days and dates are for archives"
        raise click.UsageError(f"--{name} {text}: {why}")
    return None if text is None else Moment().convert(text, None, None)


def utc(name: str, text: str | None) -> datetime | None:
    """The value of a When option about an archive, in UTC without a zone."""
    if text is None or (at := _day(text)) is not None:
        return at if text is not None else None
    span = abs(Moment().convert(text, None, None))
    try:
        return datetime.now(UTC).replace(tzinfo=None) - timedelta(seconds=span)
    except OverflowError:
        raise click.UsageError(f"--{name} {text}: before the year 1") from None


_SECONDS = {"s": 1.0, "ms": 1e-3, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12} | {
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}


def duration(least: float = 0) -> Quantity:
    """The type of an option in seconds."""
    return Quantity("span of time", "90s, 5min or 1h", _SECONDS, least)


def size(least: float = 0) -> Quantity:
    """The type of an option in bytes."""
    return Quantity("size", "500MB or 2GB", _BYTES, least)


PATH = click.Path(path_type=Path)


class Archive(str):
    """The place of an archive: a directory, or a bucket's URL."""


class _Source(click.ParamType[Path | Archive]):
    """A tape, or an archive of tapes, unless only tapes will do."""

    name = "path"

    def __init__(self, *, tape: bool = False) -> None:
        self._tape = tape

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> Path | Archive:
        found = value if isinstance(value, Path | Archive) else source(str(value))
        if self._tape and isinstance(found, Archive):
            step = f"pagetape sql {found} 'SELECT object FROM fleet_tape'"
            why = f"an archive; this command takes tapes of it, as {found}/OBJECT"
            raise click.UsageError(f"{found}: {why}: {step}")
        return found


def source(text: str) -> Path | Archive:
    """The tape or the archive that a word names; of a tape in a bucket, a copy."""
    if Path(text).is_file():  # a tape: no need of what archives need
        return Path(text)
    from pagetape.archive import store

    if not store.is_archive(text):
        return Path(text)
    ctx = click.get_current_context()
    url, name = store.split(text)
    if name is None or ctx.resilient_parsing:
        return Archive(text)
    from pagetape.indexing.copies import Copies

    copies = Copies(store.open_store(url))
    ctx.call_on_close(copies.close)
    return copies.of(name)


def archive_of(sources: Sequence[Path | Archive]) -> Archive | None:
    """The archive among arguments; bad usage unless it is alone."""
    found = [one for one in sources if isinstance(one, Archive)]
    if found and len(sources) > 1:
        raise click.UsageError(f"{found[0]}: an archive is asked alone, without other tapes")
    return found[0] if found else None


TAPE = _Source(tape=True)
tape = click.argument("tape", metavar="T.tape", type=TAPE, shell_complete=completion.tapes)
sources = click.argument(
    "tapes",
    metavar="T.tape...|URL",
    type=_Source(),
    nargs=-1,
    required=True,
    shell_complete=completion.tapes,
)
json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


def _limit_queries(_ctx: click.Context, _param: click.Parameter, most: float | None) -> None:
    from pagetape.asking import query_memory

    query_memory.limit(most)


memory = click.option(
    "--memory",
    type=size(least=384 * 2.0**20),
    metavar="SIZE",
    callback=_limit_queries,
    expose_value=False,
    help="Most memory of the queries. Rows beyond it go to a file in $TMPDIR, which takes at most"
    " half of the free space of its disk.  [default: 1GiB]",
)
archive = click.argument("url", metavar="URL", type=str)
policy = click.option(
    "--policy",
    type=PATH,
    metavar="FILE",
    help="What may leave this machine: docs/fleet.md.  [default: /etc/pagetape/policy.toml, if it"
    " exists]",
)


class _Rate(Quantity):
    """Bytes per second, also with /s behind them."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = value.removesuffix("/s") if isinstance(value, str) else value
        return super().convert(text, param, ctx)


rate = _Rate("rate", "100kB/s or 2MB/s", _BYTES, 1)
_KEY_BYTES = (16, 4096)  # least and most of the key of a fleet


def _use_fleet_key(_ctx: click.Context, _param: click.Parameter, path: Path | None) -> None:
    from pagetape import machine_id

    machine_id.use_fleet_key(None)  # not that of an earlier command in this process
    if path is None:
        return
    from pagetape.tapes import regular

    least, most = _KEY_BYTES
    key = regular.read(path, most).strip()
    if len(key) < least:
        step = f"head -c 32 /dev/urandom | base64 > {path}"
        raise click.ClickException(
            f"{path}: a key of {len(key)} bytes; a key has {least} or more ({step})"
        )
    machine_id.use_fleet_key(key)


fleet_key = click.option(
    "--fleet-key",
    type=PATH,
    metavar="FILE",
    callback=_use_fleet_key,
    expose_value=False,
    help="Key of a fleet: the machine's name in an archive is a hash with this key, and so are the"
    " names of --private.  [default: see docs/fleet.md]",
)
wide = click.option(
    "--wide", is_flag=True, help="Show all columns of a table, also on a narrow terminal."
)
force = click.option("--force", is_flag=True, help="Replace an output that pagetape wrote before.")


def output(metavar: str, text: str, *, required: bool = False) -> Callable[[Command], Command]:
    """The option -o, with that help."""
    words = ("-o", "--output", "out")
    return click.option(*words, type=PATH, metavar=metavar, required=required, help=text)


private = click.option(
    "--private",
    type=click.Choice(["hash", "drop"]),
    help="Make a tape that you can publish: hash or drop names, and move pfns.  [default: names and"
    " pfns unchanged]",
)
