# SPDX-License-Identifier: Apache-2.0
"""UDP datagrams with numbers, sent and received through raw sockets in the machines of labs.

A number stands in the payload, which nothing on the way touches, and in the IP ID, which
radar's records show. The sender writes the whole IP header, the receiver reads it: what was
sent, what arrived and what radar says can be compared packet by packet.
"""

import ctypes
import socket
import struct
import time
from dataclasses import dataclass

MOST = 0xFFFF  # numbers begin at 1: into an IP ID of 0 the kernel writes its own
IP = struct.Struct(">BBHHHBBH4s4s")
UDP = struct.Struct(">HHHH")
NUMBER = struct.Struct(">Q")
LEAST_BYTES = IP.size + UDP.size + NUMBER.size
DONT_FRAGMENT = 0x4000
BUFFER = 1 << 29  # of a receiver: all that a run sends
SO_TIMESTAMPNS, SO_RCVBUFFORCE = 35, 33  # not in Python's module

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Datagram:
    """One that is to be sent."""

    number: int
    src: str
    dst: str
    sport: int = 40000
    dport: int = 9000
    bytes: int = 100  # of IP
    ttl: int = 64
    tos: int = 0
    df: bool = True

    def pack(self):
        # Of checksums the kernel writes that of IP; UDP over IPv4 needs none.
        return (
            IP.pack(0x45, self.tos, self.bytes, self.number, DONT_FRAGMENT if self.df else 0, self.ttl, socket.IPPROTO_UDP, 0,
                    socket.inet_aton(self.src), socket.inet_aton(self.dst))
            + UDP.pack(self.sport, self.dport, self.bytes - IP.size, 0)
            + NUMBER.pack(self.number)
            + bytes(self.bytes - LEAST_BYTES)
        )


@dataclass(frozen=True)
class Arrived:
    """One as a receiver's socket got it."""

    number: int
    ip_id: int
    ttl: int
    tos: int
    bytes: int
    time_ns: int  # wall clock, by the kernel; 0 without stamps

    def is_as_sent(self, sent, routers=0):
        """Whether its header is what it was, but for what routers between take off the TTL."""
        return (self.ip_id, self.tos, self.ttl, self.bytes) == (sent.number, sent.tos, sent.ttl - routers, sent.bytes)


def numbers_in(opened):
    """The numbers of the datagrams that wait in a UDP socket, in their order."""
    opened.setblocking(False)
    found = []
    try:
        while True:
            found.append(NUMBER.unpack_from(opened.recv(2048))[0])
    except BlockingIOError:
        return found


def socket_in(lab, machine, *kind):
    """A socket in a machine's namespace, where it stays."""
    with open("/proc/thread-self/ns/net", "rb") as here, open(f"/run/netns/{lab.netns(machine)}", "rb") as there:
        try:
            _enter(there)
            return socket.socket(*kind)
        finally:
            _enter(here)


def _enter(namespace):
    if _libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), f"setns {namespace.name}")


class Sender:
    """Sends from a machine."""

    def __init__(self, lab, machine):
        self.socket = socket_in(lab, machine, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, datagrams, rate, stop=None):
        """Sends them at rate a second, until stop (an event) is set if there is one.

        Returns for each the wall clock before and after, ns.
        """
        packed = [(d.pack(), (d.dst, 0)) for d in datagrams]
        times, gap = [], 1e9 / rate
        begin = time.perf_counter_ns()
        for i, (data, to) in enumerate(packed):
            ahead = begin + i * gap - time.perf_counter_ns()
            if ahead > 300_000:
                time.sleep(ahead / 1e9 - 100e-6)
            while time.perf_counter_ns() < begin + i * gap:
                pass
            if stop and stop.is_set():
                break
            before = time.time_ns()
            self.socket.sendto(data, to)
            times.append((before, time.time_ns()))
        return times


class Receiver:
    """Receives what comes to ports of a machine: by UDP sockets, and with headers by a raw one.

    With stamps the kernel stamps every packet of this computer as it comes in by a link, and
    captures show that stamp instead of the moment in which they see the packet.
    """

    def __init__(self, lab, machine, *ports, stamps=True):
        self.ports, self.stamps = ports, stamps
        self.sockets = []
        self.raw = self.open(lab, machine, socket.SOCK_RAW, socket.IPPROTO_UDP)
        if stamps:
            self.raw.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.udp = []
        for port in ports:
            listener = self.open(lab, machine, socket.SOCK_DGRAM, 0)
            listener.bind(("", port))
            self.udp.append(listener)

    def open(self, lab, machine, *kind):
        opened = socket_in(lab, machine, socket.AF_INET, *kind)
        self.sockets.append(opened)
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        opened.setblocking(False)
        return opened

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for opened in self.sockets:
            opened.close()

    def numbers(self):
        """The numbers that UDP sockets have got since the last call."""
        return [number for listener in self.udp for number in numbers_in(listener)]

    def arrived(self):
        """What the raw socket has got since the last call."""
        found = []
        try:
            while True:
                data, ancillary, _, _ = self.raw.recvmsg(2048, 64)
                _, tos, length, ip_id, _, ttl, _, _, _, _ = IP.unpack_from(data)
                if len(data) < LEAST_BYTES or UDP.unpack_from(data, IP.size)[1] not in self.ports:
                    continue
                seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2]) if self.stamps else (0, 0)
                (number,) = NUMBER.unpack_from(data, IP.size + UDP.size)
                found.append(Arrived(number, ip_id, ttl, tos, length, seconds * 10**9 + nanoseconds))
        except BlockingIOError:
            return found
