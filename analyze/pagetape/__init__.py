# SPDX-License-Identifier: Apache-2.0
"""pagetape: record, replay and question the Linux page allocator."""
