# SPDX-License-Identifier: Apache-2.0
"""pytest names tests schemas.tests.NAME: that package is the built one, with its tables."""

import sys

from pagetape import schemas

sys.modules["schemas"] = schemas
