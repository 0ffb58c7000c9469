#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 9: CPU that schemes take while TCP goes through one router at several rates."""

from exp import paper
from exp.bench import bench, each
from exp.experiment import main

SATURATED = "what it can"


def measure(options):
    cpu, softirq, sent, costs = bench(options, "cpu", (8, 4 * paper.CPU_ROUNDS))
    rows, saturated = {}, []
    for key, table in (("cpu_points", cpu), ("softirq_points", softirq), ("mbit", sent)):
        for rate, scheme, number, value in each(table):
            if rate != SATURATED:
                row = rows.setdefault((number, rate, scheme), {"round": number, "rate": int(rate.split()[0]), "scheme": scheme})
                row[key] = value
            elif key == "mbit":
                saturated.append({"round": number, "scheme": scheme, "mbit": value})
    by_scheme = {}
    for scheme, column, _, ns in each(costs):
        by_scheme.setdefault(scheme, {"scheme": scheme})["ns_per_run" if column == "ns a run" else "ns_per_segment"] = ns
    return {
        "seconds": options.pick(3, paper.CPU_SECONDS),
        "rounds": options.pick(2, paper.CPU_ROUNDS),
        "rows": list(rows.values()),
        "saturated": saturated,
        "costs": list(by_scheme.values()),
    }


if __name__ == "__main__":
    main("04-cpu", measure)
