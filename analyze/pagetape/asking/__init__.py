# SPDX-License-Identifier: Apache-2.0
"""Asking: tapes in DuckDB, the queries about them, and tapes side by side."""
