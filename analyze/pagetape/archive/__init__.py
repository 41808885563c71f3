# SPDX-License-Identifier: Apache-2.0
"""The archive of a fleet: one object per tape, in a directory or a bucket.

The room uses `tapes` and `schemas`, and is used by `commands`, reports over a fleet and sweeps.
"""
