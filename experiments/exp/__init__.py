# SPDX-License-Identifier: Apache-2.0
"""What the experiments share: labs, radar and its peers, results, statistics, plots."""
