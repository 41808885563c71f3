# SPDX-License-Identifier: Apache-2.0
"""Pages: self-contained HTML about tapes and sweeps."""
