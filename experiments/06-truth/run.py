#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether times and losses are true, and what becomes of them under load: four questions, one after the other."""

import accuracy
import curves
import losses
import small_ring
import space

from exp.experiment import main


def measure(options):
    return {
        "accuracy": accuracy.measure(options),
        "losses": losses.measure(options),
        "curves": curves.measure(options),
        "space": space.measure(options),
        "small_ring": small_ring.measure(options),
    }


if __name__ == "__main__":
    main("06-truth", measure)
