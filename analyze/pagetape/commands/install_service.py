# SPDX-License-Identifier: Apache-2.0
"""pagetape install-service: a permanent recorder under systemd."""

import os
import subprocess
import sysconfig
from pathlib import Path

import click

from pagetape import answer
from pagetape.commands import options, record
from pagetape.recording import eventsets, service
from pagetape.tapes import output


def _systemctl(*words: str) -> None:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"systemctl {' '.join(words)}: {done.stderr.strip()}")


def _unit(given: tuple[str, ...]) -> str:
    """The text of the unit; raises UsageError if `pagetape record` refuses the options."""
    chosen = given or service.DEFAULT
    with record.command.make_context("record", ["-o", str(service.TAPES), *chosen]) as ctx:
        record.check(ctx)
        wanted = dict(ctx.params)
    if wanted["out"] != service.TAPES:
        raise click.UsageError(f"a service records to {service.TAPES}: -o is not allowed")
    if wanted["argv"]:
        raise click.UsageError(f"a service runs no command: remove '{wanted['argv'][0]}'")
    if wanted["rotate"] is None and wanted["ring"] is None:
        raise click.UsageError("a service needs --rotate or --ring")
    return service.unit(
        _program(),
        chosen,
        events=wanted["events"],
        exact=wanted["snapshot"] != "proc"
        and wanted["events"] not in (*eventsets.RARE, eventsets.PROC),
        stacks=bool(wanted["stacks"]),
        ring_memory=wanted["ring_memory"] if wanted["ring"] else 0,
    )


def _program() -> Path:
    return Path(sysconfig.get_path("scripts")) / "pagetape"


def _ship_unit(url: str, rate: float | None) -> str:
    """The text of the shipper's unit; raises UsageError for what is no archive."""
    from pagetape.archive import store

    if store.is_url(url) and not url.startswith("file:"):
        store.open_store(url)  # refuses a URL without a bucket; no request
        return service.ship_unit(_program(), url, None, rate)
    directory = store.directory_of(url)
    if not directory.is_absolute():
        raise click.UsageError(f"{url}: a service needs an absolute path, or s3://, gs://, az://")
    return service.ship_unit(_program(), url, directory, rate)


def _check_ours(path: Path) -> None:
    if not os.path.lexists(path):
        return
    if path.is_symlink() and path.readlink() == Path(os.devnull):
        raise click.ClickException(f"{path}: the unit is masked: systemctl unmask {path.name}")
    if not output.has_mark(path, service.MARK.encode()):
        raise click.ClickException(f"{path}: pagetape did not create this file")


def _install(path: Path, text: str, *, run: bool) -> None:
    _check_ours(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    mark = service.MARK.encode()
    with output.whole_file(path, replace=True, mark=mark, inputs=()) as file:
        file.write(text.encode())
    path.chmod(0o644)
    if run:
        _systemctl("daemon-reload")
        _systemctl("enable", path.name)
        _systemctl("restart", path.name)
    state = "runs" if run else "is installed, not started"
    answer.say_line(f"{path}: {state}; its tapes are in {service.TAPES}")


def _uninstall(path: Path, *, run: bool) -> None:
    if not os.path.lexists(path):
        raise click.ClickException(f"{path}: is not installed")
    _check_ours(path)
    if run:
        _systemctl("disable", "--now", path.name)
    path.unlink()
    if run:
        _systemctl("daemon-reload")
    answer.say_line(f"{path}: removed; the tapes stay in {service.TAPES}")


@click.command("install-service")
@click.option("--print", "show", is_flag=True, help="Print the unit and install nothing.")
@click.option("--uninstall", is_flag=True, help="Stop the service and remove the unit.")
@click.option(
    "--root",
    type=options.PATH,
    metavar="DIR",
    help="Install below DIR, for example into an image, and start nothing.",
)
@click.option(
    "--ship",
    metavar="URL",
    help="Install a second service beside it, which ships the tapes to this archive.",
)
@click.option(
    "--rate",
    type=options.rate,
    metavar="RATE",
    help="Most bytes per second that it ships.  [default: no limit]",
)
@click.argument("given", metavar="[-- RECORD OPTIONS...]", nargs=-1, type=click.UNPROCESSED)
def command(
    show: bool,
    uninstall: bool,
    root: Path | None,
    ship: str | None,
    rate: float | None,
    given: tuple[str, ...],
) -> None:
    """Install a permanent recorder as a systemd service.

    The service records the cheap event set into /var/lib/pagetape, five minutes per tape, and
    removes the oldest tapes beyond 2 GB. Options of `pagetape record` after -- replace these
    defaults. The unit limits memory and CPU. It permits only tracing: no network, no devices, no
    writes outside /var/lib/pagetape and the tracing instances, and few capabilities.

    --ship installs pagetape-ship.service, too: `pagetape ship --follow` with the network, but
    without capabilities, and with the tapes read only. It reads the keys of the bucket from
    /etc/pagetape/ship.env and what may leave from /etc/pagetape/policy.toml. The --keep of the
    recorder limits the tapes that wait while the archive does not answer.

    \b
    Example:
      pagetape install-service --print
      pagetape install-service
      pagetape install-service -- --events all --ring 60s --trigger 'extfrag>1000/s' --keep 1GB
      pagetape install-service --ship s3://bucket/fleet --rate 1MB/s
      pagetape install-service -- --events proc --interval 1min --rotate 24h --keep 500MB
      pagetape install-service --uninstall
    """
    if rate is not None and ship is None:
        raise click.UsageError("--rate needs --ship")
    units = {service.NAME: _unit(given)}
    if ship is not None:
        units[service.SHIP] = _ship_unit(ship, rate)
    if show:
        answer.say("\n".join(units.values()).removesuffix("\n"))
        return
    run = root is None
    if run and not Path("/run/systemd/system").is_dir():
        raise click.ClickException("this machine does not run systemd; --print prints the unit")
    place = (root or Path("/")) / service.PLACE
    if uninstall:
        if os.path.lexists(place / service.SHIP):
            _uninstall(place / service.SHIP, run=run)
        _uninstall(place / service.NAME, run=run)
        return
    for name, text in units.items():
        _install(place / name, text, run=run)
