# SPDX-License-Identifier: Apache-2.0
"""The index of an archive and its aggregates: the compactor makes them, questions read them.

The room uses `archive`, `asking` and `tapes`, and is used by `commands` and `fleet`.
"""
