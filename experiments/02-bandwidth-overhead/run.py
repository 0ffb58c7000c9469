#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 7: goodput over chains of N routers, by scheme and size of packet."""

from exp.bench import bench, each
from exp.experiment import main

# As in cmd/bench/goodput.go.
SIZES = {"64 B": {"frame": 60, "link_mbit": 10}, "1514 B": {"frame": 1514, "link_mbit": 100}}
ABOVE = 1.3  # of the link's rate is sent


def measure(options):
    (table,) = bench(options, "goodput", (4, 20))
    rows = []
    for name, scheme, number, mbit in each(table):
        size, routers = name.split(", ")
        rows.append({"round": number, "routers": int(routers), "scheme": scheme, "size": size, "goodput_mbit": mbit})
    return {"sizes": SIZES, "above": ABOVE, "seconds": options.pick(2, 10), "rounds": options.pick(1, 5), "rows": rows}


if __name__ == "__main__":
    main("02-bandwidth-overhead", measure)
