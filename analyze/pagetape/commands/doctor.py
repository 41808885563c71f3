# SPDX-License-Identifier: Apache-2.0
"""pagetape doctor: check what this machine can record."""

import click

from pagetape import answer
from pagetape.commands import options


@click.command("doctor")
@options.json
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check what this machine can record, and list what is missing.

    The command creates and removes a tracing instance and takes one exact snapshot as a test.
    It lists leftovers of killed recorders but does not remove them. The exit status is 0 if
    `pagetape record` can work here, otherwise 1. `pagetape import` needs no rights.

    \b
    Example:
      pagetape doctor
      pagetape doctor --json | jq '.checks[] | select(.ok == false)'
    """
    from pagetape.recording import doctor

    checks = doctor.run()
    works = doctor.can_record(checks)
    if as_json:
        answer.emit({"can_record": works, "checks": [vars(check) for check in checks]})
    else:
        mark = {True: "ok", False: "missing", None: ""}
        rows = [(c.name, mark[c.ok], "; ".join(filter(None, (c.found, c.remedy)))) for c in checks]
        answer.say(answer.table(("check", "", "found"), rows))
        here = "works here" if works else "does not work here; reports and replays of tapes do"
        answer.say(f"\npagetape record {here}")
    ctx.exit(0 if works else 1)
