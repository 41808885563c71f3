# SPDX-License-Identifier: Apache-2.0
"""Recording: from this machine's page allocator to tapes."""
