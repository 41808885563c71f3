# SPDX-License-Identifier: Apache-2.0
"""Stands for _snapshot in a build without it."""

raise ImportError("pagetape was built without clang or libbpf, which exact snapshots need")
