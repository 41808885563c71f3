# SPDX-License-Identifier: Apache-2.0
"""The one exception of the Python interface."""

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from pagetape import libraries
from pagetape.asking.query import ParameterError


class Error(Exception):
    """Something is wrong with a tape, a query or an argument: one line. Its cause has the rest."""


def _line(text: str) -> str:
    """The first paragraph of a message in one line: DuckDB draws the place below."""
    return " ".join(text.partition("\n\n")[0].split())


@contextmanager
def explained() -> Iterator[None]:
    """Turn the errors of pagetape and DuckDB into Error."""
    try:
        yield
    except ImportError as e:
        if found := libraries.missing(e):
            raise Error(_line(found)) from e
        if e.name is None or e.name.partition(".")[0] == "pagetape":
            raise
        raise Error(f"this needs {e.name}, which is not installed: pip install {e.name}") from e
    except OSError as e:
        place = f"{e.filename}: " if e.filename and not isinstance(e.filename, int) else ""
        raise Error(_line(f"{place}{e.strerror or e}")) from e
    except (duckdb.Error, ParameterError) as e:
        raise Error(_line(str(e))) from e
