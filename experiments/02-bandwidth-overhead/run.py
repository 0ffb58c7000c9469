#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 7: goodput over chains of N routers, by scheme and size of packet."""

from exp import paper, schemes, traffic
from exp.experiment import main
from exp.lab import chain, chain_address

# Frames as the interface sees them. The paper's "64 bytes" are taken with the four of the
# checksum behind the frame, which an interface does not see; its 1514 have none.
#
# Small packets go over slower links: iperf3 sends some 75,000 packets a second here, and
# two CPUs do not forward 195,000 ten times over. What telemetry takes of a link is a ratio
# of bytes, whatever the rate.
SIZES = {"64 B": {"frame": 60, "link_mbit": 10}, "1514 B": {"frame": 1514, "link_mbit": paper.LINK_MBIT}}
ABOVE = 1.3  # of the link's rate is sent

SCHEMES = (schemes.NONE, schemes.RADAR, schemes.TCPDUMP, schemes.IN_BAND)


def limit(lab, routers, mbit):
    """Makes every link on the way to h2 one of so many Mbit/s."""
    for machine, device in [("h1", "eth0")] + [(f"r{i + 1}", "eth1") for i in range(routers)]:
        lab.run(machine, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate", f"{mbit}mbit", "burst", "4kb", "latency", "20ms")


def measure(options):
    rounds, seconds = options.pick(1, 5), options.pick(2, 10)
    lengths = options.pick((1, 4, 7, 10), range(1, 11))
    rows = []
    for number in range(rounds):
        for routers in lengths:
            options.round(f"round {number + 1} of {rounds}, {routers} routers")
            with chain(routers) as lab:
                for name in SCHEMES:
                    with schemes.scheme(name, lab, routers) as counted:
                        figures = {}
                        for size, s in SIZES.items():
                            limit(lab, routers, s["link_mbit"])
                            figures[size] = traffic.udp(lab, chain_address(routers), s["frame"], s["link_mbit"] * ABOVE, seconds)
                    for size, f in figures.items():
                        rows.append({"round": number, "routers": routers, "scheme": name, "size": size, **f})
                    rows[-1]["counted"] = counted
    return {"sizes": SIZES, "above": ABOVE, "seconds": seconds, "rounds": rounds, "rows": rows}


if __name__ == "__main__":
    main("02-bandwidth-overhead", measure)
