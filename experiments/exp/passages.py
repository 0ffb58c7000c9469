# SPDX-License-Identifier: Apache-2.0
"""Where and when numbered datagrams passed, as tcpdump saw them in every machine of a lab."""

import json
import re
import signal
import tempfile
import time
from pathlib import Path

import numpy
import pandas

from .lab import CommandError, stop

SNAPSHOT = 64  # bytes kept: no packet may be shorter, so that all take the same room in the file
PATIENCE = 10.0  # seconds for tcpdump to begin
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
        self.running = {}

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="passages-")
        try:
            for machine in self.machines:
                command = ["tcpdump", "-i", "any", "-y", "LINUX_SLL2", "-n", "-s", SNAPSHOT, "-B", 16384]
                # -Z: else it becomes a user who cannot write here.
                command += ["--time-stamp-precision", "nano", "-Z", "root", "-w", self.path(machine, "pcap"), self.filter]
                with self.path(machine, "log").open("w") as log:
                    self.running[machine] = self.lab.start(machine, *command, stderr=log)
            for machine in self.machines:
                self.await_begin(machine)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            stop(process)
            self.lab.processes.remove(process)
        self.running = {}
        self.folder.cleanup()

    def path(self, machine, suffix):
        return Path(self.folder.name) / f"{machine}.{suffix}"

    def await_begin(self, machine):
        end = time.monotonic() + PATIENCE
        while "listening on" not in self.path(machine, "log").read_text():
            if self.running[machine].poll() is not None or time.monotonic() > end:
                raise CommandError(f"tcpdump does not begin: {self.path(machine, 'log').read_text().strip()}")
            time.sleep(0.02)

    def read(self):
        """Ends the captures. Returns a row for each sight of a packet, in order of time."""
        time.sleep(SETTLE)
        frames = []
        for machine, process in self.running.items():
            stop(process, signal.SIGINT)
            said = self.path(machine, "log").read_text()
            dropped = re.search(r"(\d+) packets? dropped by kernel", said)
            if not dropped or int(dropped[1]) > 0:
                raise CommandError(f"tcpdump in {machine} did not see everything: {said.strip()}")
            frames.append(self.read_one(machine))
        return pandas.concat(frames).sort_values("time_ns", kind="stable", ignore_index=True)

    def read_one(self, machine):
        data = self.path(machine, "pcap").read_bytes()
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
