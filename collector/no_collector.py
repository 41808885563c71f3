# SPDX-License-Identifier: Apache-2.0
"""Replaces _collector in a build without the trace libraries."""

raise ImportError(
    "pagetape was built without libtraceevent, libtracefs or libtracecmd",
    name="pagetape._collector",
)
