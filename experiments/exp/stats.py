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


def median_interval(values, confidence=0.95, draws=2000, seed=1):
    """Median, and its confidence interval by bootstrap: (median, low, high)."""
    values = numpy.asarray(values, dtype=float)
    generator = numpy.random.default_rng(seed)
    medians = numpy.median(generator.choice(values, (draws, len(values))), axis=1)
    tail = 100 * (1 - confidence) / 2
    low, high = numpy.percentile(medians, [tail, 100 - tail])
    return float(numpy.median(values)), float(low), float(high)
