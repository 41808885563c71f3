# SPDX-License-Identifier: Apache-2.0
"""Live A/B: a setting of this machine in turns at two values, beside its prediction."""

WARM_UPS = ("all", "first", "none")  # which runs a warm-up goes before
