# SPDX-License-Identifier: Apache-2.0
"""Tapes: what a tape directory is and holds, and what is known about it."""
