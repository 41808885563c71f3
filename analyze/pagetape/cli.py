# SPDX-License-Identifier: Apache-2.0
"""The command line."""

import click


@click.group()
def main() -> None:
    """Record, replay and question the Linux page allocator."""
