# SPDX-License-Identifier: Apache-2.0
"""Traffic through a chain by the tools that people use: iperf3 and ping."""

import json
import re
import subprocess

from .lab import CommandError, stop

ETHERNET, IPV4, UDP = 14, 20, 8


def udp(lab, address, frame, mbit, seconds):
    """UDP in frames of so many bytes at mbit/s; returns iperf3's figures of the receiver.

    frame counts the Ethernet header, not the checksum behind a frame.
    """
    payload = frame - ETHERNET - IPV4 - UDP
    end = iperf3(lab, address, "-u", "-l", payload, "-b", f"{mbit}M", "-t", seconds)["end"]["sum"]
    return {
        "payload": payload,
        "sent": end["packets"],
        "received": end["packets"] - end["lost_packets"],
        "seconds": end["seconds"],
        "goodput_mbit": (end["packets"] - end["lost_packets"]) * payload * 8 / end["seconds"] / 1e6,
    }


def tcp(lab, address, seconds, mbit=0):
    """TCP at mbit/s (0: what it can); returns iperf3's figures of the receiver."""
    end = iperf3(lab, address, "-t", seconds, "-b", f"{mbit}M")["end"]
    return {"mbit": end["sum_received"]["bits_per_second"] / 1e6, "retransmits": end["sum_sent"]["retransmits"]}


def iperf3(lab, address, *arguments):
    """One run of iperf3 from h1 to h2; its JSON."""
    server = lab.start("h2", "iperf3", "-s", "-1", "--forceflush", stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stdout:
            if "listening" in line:
                break
        said = json.loads(lab.run("h1", "iperf3", "-J", "-c", address, *arguments, check=False) or "{}")
        if "error" in said or "end" not in said:
            raise CommandError(f"iperf3 to {address}: {said.get('error', 'said nothing')}")
        return said
    finally:
        lab.processes.remove(server)
        stop(server)


def ping_flood(lab, address, count):
    """ping -f: average round trip in us, and how many echoes were lost."""
    said = lab.run("h1", "ping", "-f", "-q", "-c", count, address)
    times = re.search(r"= [\d.]+/([\d.]+)/", said)
    received = re.search(r"(\d+) received.* time (\d+)ms", said)
    if not times or not received:
        raise CommandError(f"ping {address}: {said}")
    return {
        "rtt_us": float(times[1]) * 1e3,
        # An exchange after the other: the whole time says more than 1 us at a time.
        "exchange_us": float(received[2]) * 1e3 / count,
        "lost": count - int(received[1]),
    }
