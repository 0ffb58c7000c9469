# SPDX-License-Identifier: Apache-2.0
"""Losses of every kind, made and counted without radar, beside what radar found."""

import json
import random
import socket
import time
from dataclasses import dataclass

from forwarder import SINK as RECEIVER
from forwarder import SOURCE as SENDER
from forwarder import Forwarder, network

from exp.lab import chain, chain_address
from exp.numbered import Datagram, Receiver, Sender, numbers_in, socket_in
from exp.radar import Radar

ROUTERS = 3
SOURCE, SINK = "10.0.1.1", chain_address(ROUTERS)
NO_ROUTE, NO_HOST = "10.99.0.1", "10.0.4.99"
RATE, AT_ONCE = 2000, 1e6
TIMEOUT_S = 3  # after which radar says that a packet has vanished
NOTICE_S = 1.5  # for radar's agent to see that there is a queue now
FORWARDER_LOSS = "5%"
CLOSED, SMALL_BUFFER = 7007, 7009  # ports at h2
BUCKET = ["rate", "20mbit", "burst", "16kb", "limit", "64kb"]  # holds some 120 of the large packets
LARGE = 500


@dataclass(frozen=True)
class Kind:
    """A way to lose packets: what is sent, and where and why radar must say that it was lost."""

    name: str
    dport: int
    node: str
    port: str  # interface concerned
    at: str
    reasons: tuple  # as the kernel calls them
    counted_by: str  # what counts it besides radar
    dst: str = SINK
    ttl: int = 64
    bytes: int = 100
    local: bool = False  # after delivery: no loss


# Who waits for an answer, finds no room to wait, or comes when there is none.
NEIGHBOUR = ("NEIGH_FAILED", "NEIGH_QUEUEFULL", "QUEUE_PURGE")
KINDS = (
    Kind("nftables drop", 7001, "r1", "eth0", "node", ("NETFILTER_DROP",), "nft's counter in r1"),
    Kind("no route", 7002, "r1", "eth0", "node", ("IP_INNOROUTES",), "InNoRoutes of r1", dst=NO_ROUTE),
    Kind("TTL expires", 7003, "r2", "eth0", "node", ("IP_INHDR",), "InHdrErrors of r2", ttl=2),
    Kind("iptables REJECT", 7004, "r3", "eth0", "node", ("NETFILTER_DROP",), "iptables' counter in r3"),
    Kind("larger than the MTU, DF", 7005, "r3", "eth0", "node", ("PKT_TOO_BIG",), "FragFails of r3", bytes=1500),
    Kind("no such neighbour", 7006, "r3", "eth1", "node", NEIGHBOUR, "nft's counter in r3, in front of ARP", dst=NO_HOST),
    Kind("closed port", CLOSED, "h2", "eth0", "node", ("NO_SOCKET",), "NoPorts of h2", local=True),
    Kind("iptables INPUT drop", 7008, "h2", "eth0", "node", ("NETFILTER_DROP",), "iptables' counter in h2", local=True),
    Kind("full socket buffer", SMALL_BUFFER, "h2", "eth0", "node", ("SOCKET_RCVBUFF",), "the socket's drops, /proc/net/udp", local=True),
)
QUEUE = Kind("full queue (tbf)", 7010, "r2", "eth1", "queue", ("QDISC_DROP", "QDISC_OVERLIMIT"), "tc -s qdisc in r2", bytes=LARGE)
VANISHED = Kind("lost in user space", 7011, "f", "eth0", "node", ("NOT_SEEN",), "the forwarder's own count")


def measure(options):
    count = options.pick(300, 5000)
    options.round("losses in a chain")
    rows = in_chain(count, options.seed)
    options.round("losses in a forwarder")
    return {"sent_of_each": count, "rows": rows + [in_forwarder(count * 5, options.seed)]}


def in_chain(count, seed):
    with chain(ROUTERS) as lab, Sender(lab, "h1") as sender:
        make_losses(lab)
        listening = [k.dport for k in (*KINDS, QUEUE) if k.dport not in (CLOSED, SMALL_BUFFER)]
        with Receiver(lab, "h2", *listening) as receiver, socket_in(lab, "h2", socket.AF_INET, socket.SOCK_DGRAM) as tiny:
            tiny.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            tiny.bind(("", SMALL_BUFFER))
            sender.send([Datagram(1, SOURCE, SINK, dport=CLOSED)], 1)  # neighbours
            time.sleep(0.3)
            with Radar.on(lab, flags=["--timeout", f"{TIMEOUT_S}s"]) as radar:
                before = made(lab)
                mixed = [datagram(k, n) for k in KINDS for n in range(1, count + 1)]
                random.Random(seed).shuffle(mixed)  # all kinds at once
                sender.send(mixed, RATE)
                # Not before: a sender that is late catches up, and would fill it with other kinds.
                lab.run(QUEUE.node, "tc", "qdisc", "add", "dev", QUEUE.port, "root", "tbf", *BUCKET)
                time.sleep(NOTICE_S)
                burst = [datagram(QUEUE, n) for n in range(1, 3 * count + 1)]
                sender.send(burst, AT_ONCE)
                await_ends(radar)
                after = made(lab)
                received = {port: set(numbers_in(opened)) for port, opened in zip(listening, receiver.udp)}
                received[SMALL_BUFFER] = set(numbers_in(tiny))
                return [
                    row(k, len(burst) if k is QUEUE else count, received.get(k.dport, set()), after[k.name] - before[k.name], radar)
                    for k in (*KINDS, QUEUE)
                ]


def datagram(kind, number):
    return Datagram(number, SOURCE, kind.dst, dport=kind.dport, ttl=kind.ttl, bytes=kind.bytes)


def make_losses(lab):
    """Puts what loses packets into the chain's machines."""
    chain_of = "add table ip lab; add chain ip lab forward { type filter hook forward priority 0; }; add rule ip lab forward"
    lab.run("r1", "nft", f"{chain_of} udp dport 7001 counter drop")
    lab.run("r3", "nft", f"{chain_of} udp dport 7006 counter")
    lab.run("r3", "iptables", "-w", "-A", "FORWARD", "-p", "udp", "--dport", 7004, "-j", "REJECT")
    lab.run("r3", "ip", "link", "set", "eth1", "mtu", 1400)
    # A packet waits for a neighbour for three times that: else it would have expired before it is dropped.
    lab.run("r3", "sysctl", "-q", "-w", "net.ipv4.neigh.eth1.retrans_time_ms=500")
    lab.run("h2", "iptables", "-w", "-A", "INPUT", "-p", "udp", "--dport", 7008, "-j", "DROP")


def made(lab):
    """What counts the losses besides radar."""
    return {
        "nftables drop": nft_counter(lab, "r1"),
        "no route": snmp(lab, "r1", "netstat")["IpExt InNoRoutes"],
        "TTL expires": snmp(lab, "r2")["Ip InHdrErrors"],
        "iptables REJECT": iptables_counter(lab, "r3", "FORWARD"),
        "larger than the MTU, DF": snmp(lab, "r3")["Ip FragFails"],
        "no such neighbour": nft_counter(lab, "r3"),
        "closed port": snmp(lab, "h2")["Udp NoPorts"],
        "iptables INPUT drop": iptables_counter(lab, "h2", "INPUT"),
        "full socket buffer": socket_drops(lab, "h2", SMALL_BUFFER),
        "full queue (tbf)": sum(q.get("drops", 0) for q in json.loads(lab.run("r2", "tc", "-j", "-s", "qdisc", "show", "dev", "eth1"))),
    }


def snmp(lab, machine, file="snmp"):
    """{"Group Name": value} of /proc/net/snmp or netstat of a machine."""
    lines = [line.split() for line in lab.run(machine, "cat", f"/proc/thread-self/net/{file}").splitlines()]
    return {f"{names[0][:-1]} {name}": int(value) for names, values in zip(lines[::2], lines[1::2]) for name, value in zip(names[1:], values[1:])}


def nft_counter(lab, machine):
    listed = json.loads(lab.run(machine, "nft", "-j", "list", "table", "ip", "lab"))["nftables"]
    return sum(e["counter"]["packets"] for rule in listed if "rule" in rule for e in rule["rule"]["expr"] if "counter" in e)


def iptables_counter(lab, machine, name):
    rules = lab.run(machine, "iptables", "-w", "-L", name, "-v", "-n", "-x").splitlines()[2:]
    return sum(int(rule.split()[0]) for rule in rules)


def socket_drops(lab, machine, port):
    for line in lab.run(machine, "cat", "/proc/thread-self/net/udp").splitlines()[1:]:
        fields = line.split()
        if int(fields[1].split(":")[1], 16) == port:
            return int(fields[-1])
    return 0


def await_ends(radar):
    """Waits until radar knows what became of every packet, for twice the timeout at most."""
    end = time.monotonic() + 2 * TIMEOUT_S + 4
    time.sleep(TIMEOUT_S + 1)
    while time.monotonic() < end and radar.status()["totals"]["in_flight"]:
        time.sleep(0.2)
    time.sleep(0.5)


def row(kind, sent, received, counted, radar):
    """What was made beside what radar found."""
    places = radar.ask("loss", "--dport", kind.dport, *(["--after-delivery"] if kind.local else []))
    here = [p for p in places if (p.get("node"), p.get("port"), p.get("at")) == (kind.node, kind.port, kind.at)]
    reason = [p for p in here if p.get("reason") in kind.reasons]
    missing = set(range(1, sent + 1)) - received
    lost = {r["ip_id"] for r in radar.packets("--dport", kind.dport) if ("local_drop" if kind.local else "loss") in r}
    return {
        "kind": kind.name,
        "local": kind.local,
        "sent": sent,
        "missing": len(missing),  # at the receiver's sockets
        "other_packets": len(missing ^ lost),  # missing and not lost by a record, or lost and not missing
        "counted": counted,
        "counted_by": kind.counted_by,
        "expected": {"node": kind.node, "port": kind.port, "at": kind.at, "reasons": kind.reasons},
        "found": sum(p["packets"] for p in places),
        "right_place": sum(p["packets"] for p in here),
        "right_reason": sum(p["packets"] for p in reason),
        "missed_by_hook": next(c["value"] for c in radar.status()["counters"] if c["name"] == "loss_missed"),  # of all kinds
        "places": [[*(p.get(key, "") for key in ("node", "port", "at", "reason", "qdisc", "function")), p["packets"]] for p in places],
    }


def in_forwarder(count, seed):
    """A forwarder in user space loses packets: the kernel knows nothing of that."""
    flags = ["--delay", "1ms", "--loss", FORWARDER_LOSS, "--seed", seed]
    with network() as lab, Forwarder(lab, *flags) as forwarder, Sender(lab, "h1") as sender, Receiver(lab, "h2", VANISHED.dport) as receiver:
        with Radar.on(lab, flags=["--timeout", f"{TIMEOUT_S}s"]) as radar:
            sender.send([Datagram(n, SENDER, RECEIVER, dport=VANISHED.dport) for n in range(1, count + 1)], RATE)
            await_ends(radar)
            return row(VANISHED, count, set(numbers_in(receiver.udp[0])), forwarder.counts()["lost"], radar)
