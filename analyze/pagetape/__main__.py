# SPDX-License-Identifier: Apache-2.0
"""python -m pagetape: the command line."""

from pagetape.cli import main

if __name__ == "__main__":
    main()
