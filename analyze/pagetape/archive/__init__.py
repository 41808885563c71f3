# SPDX-License-Identifier: Apache-2.0
"""The archive of a fleet: one object per tape in a directory or a bucket; putting, fetching, keeping.

The room uses `tapes` and `schemas`, and is used by `commands`, reports over a fleet and sweeps.
"""
