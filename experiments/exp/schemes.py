# SPDX-License-Identifier: Apache-2.0
"""What a chain is measured with: radar, its peers, and nothing, each from `with` to its end."""

import json
import subprocess
from contextlib import contextmanager

from .lab import PEER, CommandError, chain_address
from .radar import Radar
from .tcpdump import tcpdumps

NONE, NOP, RADAR, TCPDUMP, IN_BAND = "none", "nop", "radar", "tcpdump", "in-band"

# What each stands for, for tables.
MEANING = {
    NONE: "nothing attached",
    NOP: "TCX programs that do nothing, on radar's hooks",
    RADAR: "radar attach, everything that is on by default",
    TCPDUMP: "tcpdump -i any in each node, 96 bytes of each packet, thrown away",
    IN_BAND: "in-band telemetry as PPTMon's: 4 + 4k bytes after k nodes, MTUs raised by hand",
}

MTU, MTU_IN_BAND = 1500, 1600


@contextmanager
def scheme(name, lab, routers):
    """Puts a scheme on a chain. Yields a dict, into which it writes what it counted."""
    counted = {}
    with {NONE: _none, NOP: _nop, RADAR: _radar, TCPDUMP: _tcpdump, IN_BAND: _in_band}[name](lab, routers, counted):
        yield counted


@contextmanager
def _none(*_):
    yield


@contextmanager
def _radar(lab, routers, counted):
    # As many hops as there are nodes: else the last ones are only counted.
    with Radar.on(lab, flags=["--max-hops", routers + 2] if routers > 8 else ()) as radar:
        yield
        totals = radar.status()["totals"]
        counted.update({k: totals[k] for k in ("seen", "delivered", "lost", "not_measured", "unread")})


@contextmanager
def _peer(lab, *arguments):
    """A peer that is ready; its end yields what it counted, if anything."""
    process = subprocess.Popen([PEER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lab.processes.append(process)
    if process.stdout.readline() != "ready\n":
        raise CommandError(f"peer {' '.join(arguments)}: {process.stderr.read().strip()}")
    counted = {}
    try:
        yield counted
    finally:
        lab.processes.remove(process)
        said, complaint = process.communicate(timeout=10)
        if process.returncode != 0:
            raise CommandError(f"peer {' '.join(arguments)}: {complaint.strip()}")
        counted.update(json.loads(said or "{}"))


@contextmanager
def _nop(lab, _, __):
    with _peer(lab, "nop", *map(lab.netns, lab.machines)):
        yield


@contextmanager
def _in_band(lab, routers, counted):
    nodes = [lab.netns(m) for m in (*(f"r{i + 1}" for i in range(routers)), "h2")]
    # h1 goes on sending frames of the MTU that all links had: what the nodes put in must
    # find room in all links behind.
    _set_mtus(lab, MTU_IN_BAND)
    try:
        with _peer(lab, "inband", chain_address(routers), *nodes) as of_peer:
            yield
        counted.update(of_peer)
    finally:
        _set_mtus(lab, MTU)


def _set_mtus(lab, mtu):
    for machine in lab.machines:
        if machine != "h1":
            for device in json.loads(lab.run(machine, "ip", "-j", "link")):
                if device["ifname"].startswith("eth"):
                    lab.run(machine, "ip", "link", "set", device["ifname"], "mtu", mtu)


@contextmanager
def _tcpdump(lab, _, counted):
    # Its best settings: no names, only headers, a buffer that takes bursts.
    best = ("-i", "any", "-s", 96, "-B", 16384, "-w", "/dev/null")
    with tcpdumps(lab, {machine: (machine, *best) for machine in lab.machines}) as running:
        yield
        for one in running.values():
            for what, number in one.end().items():
                key = what.replace(" ", "_")
                counted[key] = counted.get(key, 0) + number
