# SPDX-License-Identifier: Apache-2.0
"""Replaying: plays tapes through the allocator model, and measures its accuracy."""

# Members of an ensemble by default.
MEMBERS = 16
