# SPDX-License-Identifier: Apache-2.0
"""Diagnosis: the findings that matter on a tape, each measured against a baseline."""
