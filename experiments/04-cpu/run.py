#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fig. 9: CPU that schemes take while iperf3 sends TCP at several rates through one router."""

import threading
import time

import psutil

from exp import paper, schemes, traffic
from exp.bpf import programs, statistics
from exp.experiment import main
from exp.lab import chain, chain_address

RATES_MBIT = (100, 500, 1000, 2000)
MSS = 1448  # bytes of TCP in a packet of 1500 with time stamps
# In-band telemetry is not among them: it cannot put words into each segment of a TCP train,
# and trains are what TCP sends here.
SCHEMES = (schemes.NONE, schemes.NOP, schemes.RADAR, schemes.TCPDUMP)


class Meter(threading.Thread):
    """The whole machine's CPU over the middle of a run, as the paper measures it."""

    def __init__(self, seconds):
        super().__init__(daemon=True)
        self.seconds, self.figures = seconds, {}

    def run(self):
        time.sleep(0.5)  # connections are set up
        before, began = psutil.cpu_times(), time.monotonic()
        psutil.cpu_percent(percpu=True)
        time.sleep(self.seconds)
        percent, after = psutil.cpu_percent(percpu=True), psutil.cpu_times()
        took = time.monotonic() - began
        self.figures = {
            "cpu_points": sum(percent),
            "softirq_points": 100 * (after.softirq - before.softirq) / took,
            "stolen_points": 100 * (after.steal - before.steal) / took,
        }


def measure(options):
    rounds, seconds = options.pick(2, paper.CPU_ROUNDS), options.pick(3, paper.CPU_SECONDS)
    rows, saturated, costs = [], [], []
    with chain(1) as lab:
        address = chain_address(1)
        for number in range(rounds):
            for rate in RATES_MBIT:
                options.round(f"round {number + 1} of {rounds}, {rate} Mbit/s")
                for name in SCHEMES:
                    with schemes.scheme(name, lab, 1):
                        meter = Meter(seconds)
                        meter.start()
                        sent = traffic.tcp(lab, address, seconds + 1, rate)
                        meter.join()
                    rows.append({"round": number, "rate": rate, "scheme": name, **sent, **meter.figures})
            options.round(f"round {number + 1} of {rounds}, as fast as it goes")
            for name in SCHEMES:
                with schemes.scheme(name, lab, 1):
                    saturated.append({"round": number, "scheme": name, **traffic.tcp(lab, address, options.pick(2, 10))})
        for name in (schemes.NOP, schemes.RADAR):
            options.round(f"ns per packet, {name}")
            costs.append({"scheme": name, **cost(lab, address, name)})
    return {"seconds": seconds, "rounds": rounds, "rows": rows, "saturated": saturated, "costs": costs}


def cost(lab, address, name):
    """ns per run and packet of a scheme's programs, by the kernel's own statistics."""
    before = programs()
    with schemes.scheme(name, lab, 1), statistics():
        said = traffic.iperf3(lab, address, "-t", 2, "-b", "1000M")
        new = [p for number, p in programs().items() if number not in before and p.get("run_cnt")]
    end = said["end"]["sum_sent"]
    ns, runs = sum(p["run_time_ns"] for p in new), sum(p["run_cnt"] for p in new)
    return {"ns": ns, "runs": runs, "ns_per_run": ns / max(runs, 1), "ns_per_segment": ns / max(end["bytes"] / MSS, 1)}


if __name__ == "__main__":
    main("04-cpu", measure)
