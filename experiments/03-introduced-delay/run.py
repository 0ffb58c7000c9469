#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 8: what schemes add to the round trip of ping -f, over chains of N routers."""

from contextlib import ExitStack

from exp import paper, schemes, traffic
from exp.experiment import main
from exp.lab import chain, chain_address


def measure(options):
    rounds, pings = options.pick(3, 20), options.pick(5_000, paper.PINGS)
    lengths = options.pick((1, 2, 4, 7, 10), range(1, 11))
    rows = []
    with ExitStack() as stack:
        labs = {n: stack.enter_context(chain(n)) for n in lengths}
        for n, lab in labs.items():  # neighbours are known, routes are cached
            traffic.ping_flood(lab, chain_address(n), 100)
        for number in range(rounds):
            options.round(f"round {number + 1} of {rounds}")
            for n, lab in labs.items():
                for name in schemes.MEANING:
                    with schemes.scheme(name, lab, n) as counted:
                        figures = traffic.ping_flood(lab, chain_address(n), pings)
                    rows.append({"round": number, "routers": n, "scheme": name, **figures, "counted": counted})
    return {"pings": pings, "rounds": rounds, "rows": rows}


if __name__ == "__main__":
    main("03-introduced-delay", measure)
