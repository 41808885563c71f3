# SPDX-License-Identifier: Apache-2.0
"""Tapes: the contents of a tape directory, and facts about them."""
