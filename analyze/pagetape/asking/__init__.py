# SPDX-License-Identifier: Apache-2.0
"""Asking: tapes in DuckDB, queries on them, and comparisons of tapes."""
