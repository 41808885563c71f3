# SPDX-License-Identifier: Apache-2.0
"""Replaces _snapshot in a build without exact snapshots."""

raise ImportError("pagetape was built without clang or libbpf, which exact snapshots need")
