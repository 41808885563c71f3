# SPDX-License-Identifier: Apache-2.0
from pagetape.asking.comparison import compare as compare
from pagetape.asking.database import Database as Database
from pagetape.asking.query import reports as reports
from pagetape.replaying.playback import Run as Run
from pagetape.replaying.playback import play as play
from pagetape.replaying.validation import validate as validate
from pagetape.schemas.tape import Tape as Tape
from pagetape.schemas.tape import TapeError as TapeError

__all__ = ["Database", "Run", "Tape", "TapeError", "compare", "play", "reports", "validate"]
