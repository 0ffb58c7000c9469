# SPDX-License-Identifier: Apache-2.0
"""Statistics that several experiments need; all else is scipy's."""

import math

import numpy
from scipy import stats


def mean_interval(values, confidence=0.95):
    """Mean, and its confidence interval by Student's t: (mean, low, high)."""
    values = numpy.asarray(values, dtype=float)
    mean = float(values.mean())
    if len(values) < 2:
        return mean, math.nan, math.nan
    half = float(stats.sem(values) * stats.t.ppf((1 + confidence) / 2, len(values) - 1))
    return mean, mean - half, mean + half
