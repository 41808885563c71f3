# SPDX-License-Identifier: Apache-2.0
"""The index of an archive and its aggregates: made by the compactor, read by questions over a fleet.

The room uses `archive`, `asking` and `tapes`, and is used by `commands` and `fleet`.
"""
