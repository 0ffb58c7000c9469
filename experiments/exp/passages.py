# SPDX-License-Identifier: Apache-2.0
"""Where and when numbered datagrams passed, as tcpdump saw them in every machine of a lab."""

import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy
import pandas

from .lab import CommandError
from .tcpdump import tcpdumps

SNAPSHOT = 64  # bytes kept: no packet may be shorter, so that all take the same room in the file
SETTLE = 1.3  # seconds: tcpdump is given packets at least once a second
OUTGOING = 4  # type of a packet, in the header that tcpdump makes for "any" (LINUX_SLL2)
SLL2, NANOSECONDS, FILE_HEADER = 276, 0xA1B23C4D, 24

PACKET = numpy.dtype(
    [
        ("seconds", "<u4"), ("nanoseconds", "<u4"), ("kept", "<u4"), ("length", "<u4"),
        ("protocol", ">u2"), ("reserved", ">u2"), ("ifindex", ">u4"), ("hardware", ">u2"), ("type", "u1"), ("address_length", "u1"), ("address", "S8"),
        ("version", "u1"), ("tos", "u1"), ("bytes", ">u2"), ("ip_id", ">u2"), ("offset", ">u2"), ("ttl", "u1"), ("rest", "S11"),
        ("sport", ">u2"), ("dport", ">u2"), ("udp", "S4"), ("number", ">u8"), ("more", f"S{SNAPSHOT - 56}"),
    ]
)  # fmt: skip


class Passages:
    """tcpdump in machines, for UDP to ports, from `with` to its end."""

    def __init__(self, lab, machines, ports):
        self.lab, self.machines = lab, machines
        self.filter = "udp and (" + " or ".join(f"dst port {p}" for p in ports) + ")"

    def __enter__(self):
        with ExitStack() as undo:
            self.folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="passages-"))
            self.running = undo.enter_context(tcpdumps(self.lab, {m: (m, *self.arguments(m)) for m in self.machines}))
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def file(self, machine):
        return Path(self.folder) / f"{machine}.pcap"

    def arguments(self, machine):
        keep = ["-s", SNAPSHOT, "-B", 16384, "--time-stamp-precision", "nano", "-w", self.file(machine)]
        return ["-i", "any", "-y", "LINUX_SLL2", *keep, self.filter]

    def read(self):
        """Ends the captures. Returns a row for each sight of a packet, in order of time."""
        time.sleep(SETTLE)
        frames = []
        for machine, running in self.running.items():
            if dropped := running.end()["dropped by kernel"]:
                raise CommandError(f"tcpdump in {machine} did not see everything: {dropped} packets dropped by kernel")
            frames.append(self.read_one(machine))
        return pandas.concat(frames).sort_values("time_ns", kind="stable", ignore_index=True)

    def read_one(self, machine):
        data = self.file(machine).read_bytes()
        magic, kind = numpy.frombuffer(data, "<u4", 6)[[0, 5]]
        if magic != NANOSECONDS or kind != SLL2:
            raise CommandError(f"tcpdump in {machine}: magic {magic:#x}, link type {kind}: not LINUX_SLL2 with nanoseconds")
        packets = numpy.frombuffer(data, PACKET, offset=FILE_HEADER)
        if (packets["kept"] != SNAPSHOT).any():
            raise CommandError(f"tcpdump in {machine}: a packet is shorter than {SNAPSHOT} bytes with its link header")
        ports = {p["ifindex"]: p["ifname"] for p in json.loads(self.lab.run(machine, "ip", "-j", "link"))}
        return pandas.DataFrame(
            {
                "number": packets["number"].astype("i8"),
                "dport": packets["dport"].astype("i4"),
                "machine": machine,
                "port": [ports[i] for i in packets["ifindex"]],
                "out": packets["type"] == OUTGOING,
                "time_ns": packets["seconds"].astype("i8") * 10**9 + packets["nanoseconds"],
            }
        )
