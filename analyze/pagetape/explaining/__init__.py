# SPDX-License-Identifier: Apache-2.0
"""Explaining: kernel messages about memory, and why each request failed.

Neither a tape nor the engine is needed: the rules of a release are read from schemas/.
"""
