# SPDX-License-Identifier: Apache-2.0
"""The commands, one module each that exposes `command`; `options` is what they share."""
