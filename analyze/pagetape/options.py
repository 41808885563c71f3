# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands share.

Paths are not checked by click: what opens them knows better what is wrong.
"""

from pathlib import Path

import click

PATH = click.Path(path_type=Path)

tape = click.argument("tape", metavar="T.tape", type=PATH)
tapes = click.argument("tapes", metavar="T.tape...", type=PATH, nargs=-1, required=True)
json = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
force = click.option("--force", is_flag=True, help="Replace a tape of that name.")
output = click.option(
    "-o", "--output", "out", type=PATH, metavar="T.tape", required=True, help="The tape to make."
)
