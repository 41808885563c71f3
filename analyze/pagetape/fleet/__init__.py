# SPDX-License-Identifier: Apache-2.0
"""One answer for many hosts: what-ifs over an archive, and cohorts compared host by host."""
