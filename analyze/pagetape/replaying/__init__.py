# SPDX-License-Identifier: Apache-2.0
"""Replaying: tapes through the allocator model, and its accuracy."""
