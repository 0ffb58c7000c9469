# SPDX-License-Identifier: Apache-2.0
"""What tcpdump saw before and behind the machines that delay: the truth beside radar's."""

import struct
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from exp.lab import CommandError
from exp.tcpdump import tcpdumps

SNAPSHOT = 96  # bytes of a packet: its headers
BEFORE, BEHIND = "eth0", "eth1"  # the ports of a machine that delays

# A capture file (pcap-savefile(5)) as tcpdump writes it on this machine.
FILE = struct.Struct("=IHHiIII")
PACKET = struct.Struct("=IIII")
NANOSECONDS = 0xA1B23C4D
ETHERNET = 1


def payload_packets(path):
    """((source port, destination port, sequence number, IP ID), time in ns) of TCP packets with payload."""
    data = memoryview(Path(path).read_bytes())
    magic, *_, link = FILE.unpack_from(data)
    if magic != NANOSECONDS or link != ETHERNET:
        raise CommandError(f"{path}: magic {magic:#x}, link type {link}: not Ethernet with nanoseconds")
    at = FILE.size
    while at < len(data):
        seconds, nanoseconds, kept, _ = PACKET.unpack_from(data, at)
        ip = at + PACKET.size + 14
        at += PACKET.size + kept
        tcp = ip + 4 * (data[ip] & 0xF)
        length, ip_id = struct.unpack_from(">HH", data, ip + 2)
        if length > tcp - ip + 4 * (data[tcp + 12] >> 4):
            yield (*struct.unpack_from(">HHI", data, tcp), ip_id), seconds * 10**9 + nanoseconds


@dataclass
class Passage:
    """What captures say of one machine that delays."""

    flows: dict  # (source port, destination port) -> [(time it came, ns in the machine)], in order of coming
    packets: int  # that came
    repeated: int  # of them: had come before, TCP sent them again
    vanished: int  # of them: did not come out


def passage(before, behind):
    """The Passage of two capture files."""
    # The IP ID tells a packet from one with the same bytes that TCP sent before. It is the
    # sender's or radar's: this machine changes neither, and few of them are in flight.
    came, left = dict(payload_packets(before)), dict(payload_packets(behind))
    flows, vanished = defaultdict(list), 0
    for key, came_ns in came.items():
        flow = flows[key[:2]]
        if key in left:
            flow.append((came_ns, left[key] - came_ns))
        else:
            vanished += 1
    for flow in flows.values():
        flow.sort()
    return Passage(dict(flows), len(came), len(came) - len({key[:3] for key in came}), vanished)


class Captures:
    """tcpdump on both sides of machines, for TCP to one address, from `with` to its end."""

    def __init__(self, lab, machines, address):
        self.lab, self.machines, self.address = lab, machines, address
        self.dropped = 0  # because tcpdump was too slow

    def __enter__(self):
        with ExitStack() as undo:
            self.folder = undo.enter_context(tempfile.TemporaryDirectory(prefix="captures-"))
            commands = {(m, port): (m, *self.arguments(m, port)) for m in self.machines for port in (BEFORE, BEHIND)}
            self.running = undo.enter_context(tcpdumps(self.lab, commands))
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def file(self, machine, port):
        return Path(self.folder) / f"{machine}-{port}.pcap"

    def arguments(self, machine, port):
        keep = ["-p", "-s", SNAPSHOT, "-B", 8192, "--time-stamp-precision", "nano", "-w", self.file(machine, port)]
        return [*keep, "-i", port, f"tcp and dst host {self.address}"]

    def read(self):
        """Ends the captures and returns the Passage of each machine."""
        self.dropped = sum(one.end()["dropped by kernel"] for one in self.running.values())
        return {m: passage(self.file(m, BEFORE), self.file(m, BEHIND)) for m in self.machines}
