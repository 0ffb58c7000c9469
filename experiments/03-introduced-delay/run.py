#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 8: what schemes add to the round trip of an echo, over N routers."""

from exp import paper
from exp.bench import bench, each
from exp.experiment import main


def measure(options):
    took = bench(options, "exchange", (2, 10))[0]
    rows = [
        {"round": number, "routers": int(routers), "scheme": column.removesuffix(", us"), "exchange_us": us}
        for routers, column, number, us in each(took)
    ]
    return {"pings": options.pick(2000, paper.PINGS), "medians": True, "rounds": options.pick(4, 20), "rows": rows}


if __name__ == "__main__":
    main("03-introduced-delay", measure)
