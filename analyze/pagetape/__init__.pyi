# SPDX-License-Identifier: Apache-2.0
from pagetape.api.error import Error as Error
from pagetape.api.tapes import compare as compare
from pagetape.api.tapes import open as open
from pagetape.asking.database import Database as Database
from pagetape.asking.query import reports as reports
from pagetape.replaying.playback import Run as Run
from pagetape.replaying.playback import play as play
from pagetape.replaying.validation import validate as validate
from pagetape.schemas.tape import Tape as Tape
from pagetape.schemas.tape import TapeError as TapeError
from pagetape.tapes.demo import demo_tape as demo_tape

__version__: str

__all__ = [
    "Database",
    "Error",
    "Run",
    "Tape",
    "TapeError",
    "compare",
    "demo_tape",
    "open",
    "play",
    "reports",
    "validate",
]
