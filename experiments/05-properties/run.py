#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Table I and II: each property that the paper claims, and each field that it keeps, shown by a run."""

import json
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import psutil
from costs import hooks, per_run
from networks import NETWORKS, follow
from settings import differences, settings, sizes

from exp.bpf import statistics
from exp.experiment import main
from exp.lab import RADAR, chain, chain_address, run
from exp.numbered import Datagram, Receiver, Sender
from exp.radar import Radar

ROUTERS = 3
SOURCE, SINK = "10.0.1.1", chain_address(ROUTERS)
# Ports, so that records of one part are not those of another.
STREAM, BYTES, FINE, COST = 9001, 9002, 9003, 9004
FIRST_PORT = 5000  # of sources, less one
FRAMES = (78, 142, 526, 1038, 1514)  # bytes, with 14 of Ethernet: the last is the longest that an MTU of 1500 lets pass
STREAM_RATE, RATE = 1000, 5000
PERCENTS = (0, 1, *range(5, 100, 5), 99, 99.9, 100)  # of distributions
SETTLE = 0.3  # seconds for what is in flight


def measure(options):
    result = {}
    with chain(ROUTERS) as lab, Sender(lab, "h1") as sender, Receiver(lab, "h2", STREAM, BYTES, FINE, COST) as receiver:
        prepare(lab)
        options.round("without radar")
        before = settings(lab)
        without = bytes_on_links(lab, sender, receiver, options)
        options.round("attached under traffic")
        radar = Radar.on(lab)
        with stream(lab, receiver) as attach_stream:
            took = timed(radar.__enter__)
        try:
            during = settings(lab)
            result["bandwidth"] = {"without": without, "with": bytes_on_links(lab, sender, receiver, options)}
            options.round("every packet")
            result.update(fine_grained(radar, sender, receiver, options))
            options.round("CPU")
            result["cpu"] = cpu(radar, sender, receiver, options)
            with stream(lab, receiver) as detach_stream:
                detach = timed(lambda: run(RADAR, "detach", "--domain", radar.domain))
        finally:
            radar.close()
        after = settings(lab)
        result["deploy"] = {
            "command": "radar attach -d --lab LAB",
            "machines": len(lab.machines),
            "attach_s": took,
            "detach_s": detach,
            "settings": sizes(before),
            "changed_attached": differences(before, during),
            "changed_detached": differences(before, after),
            "changes_seen": control(lab, after),
            "left_behind": left_behind(radar.domain),
            "stream_attach": attach_stream,
            "stream_detach": detach_stream,
        }
    result["networks"] = {}
    for name in NETWORKS:
        options.round(f"network {name}")
        result["networks"][name] = follow(name, options.pick(1500, 20_000))
    return result


def prepare(lab):
    """Gives the machines something that could be changed: a firewall, and a process each.

    Neighbours become permanent: ARP would add to counters of bytes.
    """
    rules = "add table ip lab; add chain ip lab forward { type filter hook forward priority 0; }; add rule ip lab forward"
    lab.run("r2", "nft", f"{rules} udp dport 9999 drop")
    lab.run("r3", "iptables", "-w", "-A", "FORWARD", "-p", "udp", "--dport", 9998, "-j", "DROP")
    lab.run("h1", "ping", "-c", "1", "-W", "5", SINK)
    for machine in lab.machines:
        lab.start(machine, "sleep", "infinity")
        for n in json.loads(lab.run(machine, "ip", "-j", "neigh")):
            lab.run(machine, "ip", "neigh", "replace", n["dst"], "lladdr", n["lladdr"], "dev", n["dev"], "nud", "permanent")


def timed(action):
    began = time.monotonic()
    action()
    return time.monotonic() - began


def counters(lab):
    """{machine/port direction: [bytes, packets]} by the kernel."""
    found = {}
    for machine in lab.machines:
        for link in json.loads(lab.run(machine, "ip", "-j", "-s", "link")):
            for direction, statistic in link["stats64"].items():
                if link["ifname"].startswith("eth"):
                    found[f"{machine}/{link['ifname']} {direction}"] = [statistic["bytes"], statistic["packets"]]
    return found


def bytes_on_links(lab, sender, receiver, options):
    """The same packets every time: what the kernel counts on every link, and what arrives."""
    count = options.pick(200, 2000)
    datagrams = [Datagram(n + 1, SOURCE, SINK, dport=BYTES, bytes=FRAMES[n % len(FRAMES)] - 14) for n in range(count * len(FRAMES))]
    before = counters(lab)
    sender.send(datagrams, RATE)
    time.sleep(SETTLE)
    after = counters(lab)
    mtus = {f"{m}/{p['ifname']}": p["mtu"] for m in lab.machines for p in json.loads(lab.run(m, "ip", "-j", "link"))}
    arrived = Counter(a.bytes + 14 for a in receiver.arrived())
    receiver.numbers()
    return {
        "sent": len(datagrams),
        "links": {side: [after[side][i] - before[side][i] for i in (0, 1)] for side in before},
        "arrived_by_frame": {str(f): arrived[f] for f in FRAMES},
        "of_each_frame": count,
        "mtus": mtus,
    }


@contextmanager
def stream(lab, receiver):
    """A stream while something is done. What became of it is in the dict at the end."""
    datagrams = [Datagram(n, SOURCE, SINK, dport=STREAM, tos=(n % 64) << 2, ttl=32 + n % 200) for n in range(1, 60_000)]
    stop, sent = threading.Event(), []
    result = {}
    with Sender(lab, "h1") as sender:
        thread = threading.Thread(target=lambda: sent.extend(sender.send(datagrams, STREAM_RATE, stop)))
        thread.start()
        try:
            time.sleep(SETTLE)
            yield result
            time.sleep(SETTLE)
        finally:
            stop.set()
            thread.join()
    time.sleep(SETTLE)
    arrived = receiver.arrived()
    numbers = [a.number for a in arrived]
    result.update(
        sent=len(sent),
        received=len(set(numbers)),
        twice=len(numbers) - len(set(numbers)),
        out_of_order=sum(1 for a, b in zip(numbers, numbers[1:]) if b < a),
        wrong_headers=sum(1 for a in arrived if not a.is_as_sent(datagrams[a.number - 1], ROUTERS)),
    )
    receiver.numbers()


def fine_grained(radar, sender, receiver, options):
    """Packets of every TTL, DSCP and kind: each must have one record that holds what was sent."""
    count = options.pick(10_000, 60_000)
    datagrams = [
        # One in four may be fragmented: its bits must not be changed. The port says which one a record is.
        Datagram(n, SOURCE, SINK, sport=FIRST_PORT + n, dport=FINE, bytes=64 + n % 1437, ttl=10 + n % 246, tos=(n % 64) << 2, df=n % 4 != 0)
        for n in range(1, count + 1)
    ]
    before = radar.status()["totals"]
    times = sender.send(datagrams, RATE)
    time.sleep(SETTLE)
    arrived = {a.number: a for a in receiver.arrived()}
    numbers = receiver.numbers()
    records = {}
    for record in radar.packets("--dport", FINE):
        records.setdefault(record["sport"] - FIRST_PORT, []).append(record)
    after = radar.status()["totals"]
    return {
        "fine": {
            "sent": count,
            "received": len(numbers),
            "received_once": len(set(numbers)),
            "wrong_headers": sum(1 for n, a in arrived.items() if not a.is_as_sent(datagrams[n - 1], ROUTERS)),
            "records": sum(map(len, records.values())),
            "missing": sum(1 for d in datagrams if d.number not in records),
            "twice": sum(1 for r in records.values() if len(r) > 1),
            "states": Counter(r["state"] for of_one in records.values() for r in of_one),
            "seen": after["seen"] - before["seen"],
            "not_measured": after["not_measured"] - before["not_measured"],
        },
        "metadata": metadata(datagrams, times, arrived, {n: r[0] for n, r in records.items()}),
    }


def metadata(datagrams, times, arrived, records):
    """How many records hold what was sent, field by field of the paper's Table II."""
    names = ["h1", *(f"r{i + 1}" for i in range(ROUTERS)), "h2"]
    right = Counter()
    after_send, before_end, previous_hop = [], [], []
    for d, (before, _) in zip(datagrams, times):
        record, end = records.get(d.number), arrived.get(d.number)
        if record is None or end is None:
            continue
        hops = record["hops"]
        right["ttl_original"] += record["ttl"] == d.ttl
        right["dscp_original"] += record["dscp"] == d.tos >> 2
        right["ip_id_original"] += record["ip_id"] == d.number
        right["path"] += [h["node"] for h in hops] == names
        right["device_id"] += len({h["node_id"] for h in hops}) == len(names)
        # Stamps lie between the clock before the call that sends and the kernel's at the receiving socket.
        right["first_hop_ts"] += before <= record["t_ns"] <= end.time_ns
        at = [record["t_ns"] + h["at_ns"] for h in hops]
        right["previous_hop_ts"] += at == sorted(at) and at[-2] <= end.time_ns
        after_send.append(record["t_ns"] - before)
        before_end.append(end.time_ns - record["t_ns"])
        previous_hop.append(end.time_ns - at[-2])
    # One from the middle, when caches are warm.
    middle = len(datagrams) // 2
    d, example = datagrams[middle], records.get(datagrams[middle].number, {})
    return {
        "compared": len(after_send),
        "right": right,
        "percents": PERCENTS,
        "after_send_ns": quantiles(after_send),
        "before_end_ns": quantiles(before_end),
        "previous_hop_before_end_ns": quantiles(previous_hop),
        "example": example,
        "example_sent": {"ttl": d.ttl, "dscp": d.tos >> 2, "ip_id": d.number, "time_ns": times[middle][0]},
    }


def quantiles(values):
    """The values at PERCENTS, by nearest rank."""
    values = sorted(values)
    return [values[round(q / 100 * (len(values) - 1))] for q in PERCENTS] if values else []


def cpu(radar, sender, receiver, options):
    """ns of each hook, and what the agent takes beside the traffic."""
    count = options.pick(10_000, 60_000)
    datagrams = [Datagram(n, SOURCE, SINK, dport=COST) for n in range(1, count + 1)]
    agent = psutil.Process(radar.status()["agent"]["pid"])
    with statistics():
        before, of_agent, began = hooks(radar), agent.cpu_times(), time.monotonic()
        sender.send(datagrams, RATE)
        seconds, agent_after = time.monotonic() - began, agent.cpu_times()
        after = hooks(radar)
    receiver.numbers(), receiver.arrived()
    return {
        "packets": count,
        "rate": RATE,
        "hooks": per_run(before, after),
        "agent_percent": 100 * (agent_after.user + agent_after.system - of_agent.user - of_agent.system) / seconds,
    }


def control(lab, state):
    """Whether a change would have been seen: an MTU less by one, and back."""
    lab.run("r1", "ip", "link", "set", "eth0", "mtu", 1499)
    changed = differences(state, settings(lab))
    lab.run("r1", "ip", "link", "set", "eth0", "mtu", 1500)
    return sum(changed.values())


def left_behind(domain):
    """Files of a domain that are still there."""
    return [str(p) for p in (*Path("/run/radar").glob(f"*/{domain}"), *Path("/sys/fs/bpf/radar").glob(f"*/{domain}"))]


if __name__ == "__main__":
    main("05-properties", measure)
