# SPDX-License-Identifier: Apache-2.0
"""More packets in flight than radar has slots, for real: what is not measured, and whether the rest is right."""

import json
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from forwarder import SINK, SOURCE, Forwarder, network
from space import MIN_AGE_S, simulate_ring

from exp.lab import RADAR, stop
from exp.numbered import MOST, Datagram, Receiver, Sender
from exp.radar import Radar

SLOTS = 4096
DELAY_S = 1.0  # mean
DELAYS = {"constant": f"constant:{DELAY_S * 1e3:.0f}ms", "exponential": f"exponential:{DELAY_S * 1e3:.0f}ms"}
TIMEOUT_S = 20  # of radar: longer than any of these delays
# f is not attached: a packet that found no slot in h1 would get another chance there.
ROLES = ["--role", "h1/eth0=internal", "--role", "h2/eth0=internal"]
EARLY_NS = 1_000_000  # what the two clocks may differ by


def measure(options):
    rates = options.pick({"constant": (2000, 7000), "exponential": (7000,)}, dict.fromkeys(DELAYS, (1000, 2000, 3500, 5000, 7000, 10_000)))
    seconds, rows = options.pick(3, 6), []
    ports = range(9000, 9000 + sum(map(len, rates.values())))
    with network() as lab, Sender(lab, "h1") as sender, Receiver(lab, "h2", *ports) as receiver:
        for kind, delay in DELAYS.items():
            # A packet with a short delay overtakes: else they would not be independent.
            with Forwarder(lab, "--delay", delay, "--reorder", "--queue", MOST, "--seed", options.seed) as forwarder:
                nodes = [f"{m}=netns:{lab.netns(m)}" for m in ("h1", "h2")]
                with Radar(*nodes, flags=["--slots", SLOTS, "--timeout", f"{TIMEOUT_S}s", *ROLES]) as radar:
                    for rate in rates[kind]:
                        options.round(f"a ring of {SLOTS} slots: {rate} a second, {kind} delay")
                        count = min(int(rate * seconds), MOST)
                        row = one(radar, forwarder, sender, receiver, ports[len(rows)], count, rate)
                        rows.append({"kind": kind, "rate": rate, "in_flight": rate * DELAY_S, **row})
    return {"slots": SLOTS, "delay_s": DELAY_S, "rows": rows}


def one(radar, forwarder, sender, receiver, port, count, rate):
    """Sends, waits until all have arrived, and looks at every packet and every record."""
    datagrams = [Datagram(n, SOURCE, SINK, dport=port, ttl=10 + n % 246, tos=(n % 64) << 2) for n in range(1, count + 1)]
    with tempfile.NamedTemporaryFile(prefix="records-", suffix=".json") as file:
        # The ring comes round many times: records are read as they end.
        command = [RADAR, "packets", "-f", "--dport", str(port), "-o", "json", "--domain", radar.domain]
        reader = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            before, forwarded = state(radar), forwarder.counts()
            began = time.monotonic()
            times = sender.send(datagrams, rate)
            took = time.monotonic() - began
            arrived = drain(receiver, forwarder)
            time.sleep(1)  # records are told of a moment after they have ended
            after, forwarded_after = state(radar), forwarder.counts()
        finally:
            stop(reader, signal.SIGINT)
        records = [json.loads(line) for line in Path(file.name).read_text().splitlines()]
    by_number = {a.number: a for a in arrived}
    per_packet = Counter(r["ip_id"] for r in records)
    return {
        "sent": count,
        "took_s": took,
        "arrived": len(by_number),
        "dropped_by_forwarder": sum(forwarded_after[k] - forwarded[k] for k in ("lost", "full", "refused", "overrun", "skipped")),
        "expected_no_slot": expected(times, by_number),
        "wrong_headers": sum(1 for a in by_number.values() if not a.is_as_sent(datagrams[a.number - 1])),
        "records": len(records),
        "twice": sum(1 for n in per_packet.values() if n > 1),
        "wrong_records": sum(1 for r in records if is_wrong(r, datagrams, times, by_number)),
        "delivered": sum(1 for r in records if r["state"] == "delivered"),
        **{key: after[key] - before[key] for key in after},
    }


def state(radar):
    status = radar.status()
    counters = {c["name"]: c["value"] for c in status["counters"]}
    totals = {key: status["totals"][key] for key in ("seen", "measured", "unread")}
    return {**totals, "no_slot": counters["not_measured_no_slot"], "slots_skipped": counters["slots_skipped"]}


def drain(receiver, forwarder):
    """Everything, once the forwarder has nothing left."""
    while forwarder.counts()["queued"]:
        time.sleep(0.1)
    time.sleep(0.2)
    receiver.numbers()
    return receiver.arrived()


def expected(times, arrived):
    """How many of these very packets, with the delays that sockets saw, a ring cannot take."""
    numbers = [n for n in range(1, len(times) + 1) if n in arrived]
    sent = [times[n - 1][1] for n in numbers]
    stays = [max(arrived[n].time_ns - at, MIN_AGE_S * 1e9) for n, at in zip(numbers, sent)]
    return simulate_ring(stays, SLOTS, sent).count(False)


def is_wrong(record, datagrams, times, arrived):
    """Whether a record tells of another packet than the one whose number it has."""
    number = record["ip_id"]
    if not 1 <= number <= len(datagrams) or number not in arrived:
        return True
    sent, (before, _) = datagrams[number - 1], times[number - 1]
    if record["state"] == "lost":  # it has no latency: it ends where it was lost, if that time is known
        after = record.get("loss", {}).get("at_ns", 0)
    else:
        after = record.get("latency_ns", 0)
    end = record["t_ns"] + after
    return (
        (record["ttl"], record["dscp"], record["len"]) != (sent.ttl, sent.tos >> 2, sent.bytes)
        or not before <= record["t_ns"]
        or abs(end - arrived[number].time_ns) > EARLY_NS
        or [h["node"] for h in record["hops"]] != ["h1", "h2"]
    )
