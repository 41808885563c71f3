# SPDX-License-Identifier: Apache-2.0
"""pagetape in programs and notebooks: the commands about tapes as Python objects."""
