# SPDX-License-Identifier: Apache-2.0
"""Export: tapes for other tools."""
