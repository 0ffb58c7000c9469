# SPDX-License-Identifier: Apache-2.0
"""Network-wide: every packet's path through whole networks, beside what tcpdump saw in every machine."""

import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle

from exp.lab import Lab
from exp.numbered import Datagram, Receiver, Sender
from exp.passages import Passages
from exp.radar import Radar

RATE = 2000  # a second


@dataclass(frozen=True)
class Flow:
    machine: str  # that sends it
    src: str
    dst: str
    sport: int = 40000
    dport: int = 9000


HOSTS = {f"h{i}": f"10.0.0.{i}" for i in range(1, 6)}
# Of each built-in network: who sends what, and who receives at which ports.
NETWORKS = {
    "switches": (
        [Flow(h, own, other) for h, own in HOSTS.items() for other in HOSTS.values() if other != own],
        {h: [9000] for h in HOSTS},
    ),
    "ecmp": (
        [Flow("h1", "10.0.1.1", "10.0.2.1", 40000 + i) for i in range(20)]
        + [Flow("h2", "10.0.2.1", "10.0.1.1", 41000 + i) for i in range(20)],
        {"h1": [9000], "h2": [9000]},
    ),
    "nat": (
        [
            Flow("in1", "10.0.1.11", "192.0.2.2"),
            Flow("in2", "10.0.1.12", "192.0.2.2"),
            Flow("in1", "10.0.1.11", "192.0.2.1", 40001, 8080),
        ],
        {"srv": [9000], "in2": [80]},
    ),
    "servicechain": (
        [Flow("client", f"10.0.1.{n}", "10.0.3.2", 40000 + n, 80) for n in range(1, 7)],
        {f"srv{n}": [80] for n in (1, 2, 3)},
    ),
}


def radars_path(record):
    """(machine, port, whether it goes out) of each port that a record says the packet passed."""
    sides = [(h["node"], h.get(key), key == "port") for h in record["hops"] for key in ("in_port", "port")]
    return tuple(s for s in sides if s[1])


def machines_of(path):
    """The machines of a path as text."""
    names = [machine for machine, _, _ in path]
    return " > ".join(n for i, n in enumerate(names) if i == 0 or n != names[i - 1])


def follow(name, count):
    """Sends count packets through a network in all its flows; compares each one's path."""
    flows, receivers = NETWORKS[name]
    datagrams = [(f.machine, Datagram(n, f.src, f.dst, f.sport, f.dport)) for n, f in zip(range(1, count + 1), cycle(flows))]
    ports = sorted({p for listening in receivers.values() for p in listening} | {f.dport for f in flows})
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(name))
        senders = {m: stack.enter_context(Sender(lab, m)) for m in {f.machine for f in flows}}
        sockets = [stack.enter_context(Receiver(lab, m, *listening)) for m, listening in receivers.items()]
        # One of each flow first: neighbours are asked for, switches learn where they are.
        send(senders, datagrams[: len(flows)])
        time.sleep(0.5)
        for receiver in sockets:
            receiver.numbers()
        began = time.monotonic()
        radar = stack.enter_context(Radar.on(lab))
        attached = time.monotonic() - began
        with Passages(lab, lab.machines, ports) as passages:
            send(senders, datagrams)
            sights = passages.read()
        received = Counter(n for receiver in sockets for n in receiver.numbers())
        asked = {(f.src, f.dst, f.sport, f.dport) for f in flows}
        records = [r for r in radar.packets("--proto", "udp") if (r["src"], r["dst"], r["sport"], r["dport"]) in asked]
        totals = radar.status()["totals"]
        return {
            "machines": len(lab.machines),
            "attach_s": attached,
            "flows": len(flows),
            "sent": count,
            "received_once": sum(1 for times in received.values() if times == 1),
            "not_measured": totals["not_measured"],
            **compare(count, records, sights),
        }


def send(senders, datagrams):
    """Sends in turn from the machines: their sockets are in this process."""
    for machine, sender in senders.items():
        of_machine = [d for m, d in datagrams if m == machine]
        sender.send(of_machine, RATE)


def compare(count, records, sights):
    """Records beside what tcpdump saw, packet by packet."""
    seen = {n: tuple(zip(s["machine"], s["port"], s["out"])) for n, s in sights.groupby("number")}
    found = {}
    for record in records:
        found.setdefault(record["ip_id"], []).append(record)
    right = [n for n in range(1, count + 1) if len(found.get(n, ())) == 1 and radars_path(found[n][0]) == seen.get(n)]
    by_radar = Counter(machines_of(radars_path(r)) for r in records)
    by_tcpdump = Counter(machines_of(path) for path in seen.values())
    return {
        "records": len(records),
        "packets_with_one_record": sum(1 for of_one in found.values() if len(of_one) == 1),
        "sights": len(sights),
        "paths_right": len(right),
        "paths": [[path, by_radar[path], by_tcpdump[path]] for path in sorted(by_radar | by_tcpdump)],
    }
