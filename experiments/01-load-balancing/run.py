# SPDX-License-Identifier: Apache-2.0
"""Flows over four paths with a delay each: which path they took, and how long the hop there took."""

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy
from captures import Captures
from kathara import Engine, KatharaLab
from scipy import stats
from script import run_script

from exp import experiment, paper
from exp.lab import ROOT, CommandError, Lab
from exp.radar import Radar

HERE = Path(__file__).parent
NETEM = ROOT / "bin" / "experiments" / "01-netem.json"  # of netem.sh

ADDRESS = "10.0.2.1"  # of h2
GAP_S = 0.2  # from one packet of a flow to its next: longer than a round trip
LEAST = 100  # IP bytes of a packet with payload: one without has 80 at most
POINTS = 201  # of a distribution, from its least value to its greatest
SAME_NS = 10**6  # apart: time stamps of one packet are less, packets of a flow more
NO_GROUP = Path("/sys/fs/cgroup/cpu/tasks")  # of cgroup v1, whose groups (a container is one) have no real time
SETTLE_S = 2  # for what is in flight, and for what tcpdump has not written yet


def measure(options):
    packets = options.pick(100, paper.PACKETS_PER_FLOW)
    most = {machine.upper(): most_ms for machine, most_ms in paper.DELAYS_MS.items()}

    def in_namespaces():
        with Lab(HERE / "lab", name="balance", SEED=options.seed, **most) as lab:
            return balance(lab, lab.name, options.seed, packets)

    def in_kathara():
        # Other flows: the same ports would be hashed to the same paths.
        seed = options.seed + 1
        with Engine(), KatharaLab(HERE / "lab", name="balance", SEED=seed, **most) as lab:
            return balance(lab, lab.folder, seed, packets)

    data = {"flows": paper.FLOWS, "packets_per_flow": packets, "most_ms": paper.DELAYS_MS}
    options.round(f"{paper.FLOWS} flows of {packets} packets in namespaces")
    data["namespaces"] = in_namespaces()
    options.round("the same under Kathará")
    data["kathara"] = or_why_not(in_kathara)
    if options.full:
        options.round("with netem on a kernel that has it: some minutes")
        data["netem"] = or_why_not(on_netem)
    else:
        data["netem"] = {"not_run": "only the long form runs it: it takes minutes"}
    options.noise.sample()
    return data


def or_why_not(part):
    """What a part returns that not every machine can run."""
    try:
        return part()
    except (CommandError, subprocess.TimeoutExpired) as error:
        experiment.say(f"not run: {error}")
        # The last line says it, if there are many.
        return {"not_run": str(error).replace(f"{ROOT}/", "").splitlines()[-1]}


def on_netem():
    NETEM.unlink(missing_ok=True)  # an older one is no result of this run
    run_script(HERE / "netem.sh", timeout=3600)
    data = json.loads(NETEM.read_text(encoding="utf-8"))
    return {**data, **shares([path["flows"] for path in data["paths"].values()])}


def balance(lab, name, seed, packets):
    """Sends the flows through a lab that radar knows by a name, and returns what was seen."""
    begin = time.monotonic()
    prepare(lab)
    real_time = all([in_real_time(lab, machine) for machine in paper.DELAYS_MS])
    with Captures(lab, list(paper.DELAYS_MS), ADDRESS) as captures, Radar("--lab", name) as radar:
        ends = traffic(lab, seed, packets)
        time.sleep(SETTLE_S)
        captured = captures.read()
        told = Told(radar)
    seen = captured_paths(captured)
    alike = Counter(told.paths.get(flow) == seen.get(flow) for flow in told.paths.keys() | seen.keys())
    paths = {
        machine: {
            "flows": told.flows[machine],
            "flows_captured": len(captured[machine].flows),
            **hop(told.inside[machine], captured[machine].flows, most),
        }
        for machine, most in paper.DELAYS_MS.items()
    }
    return {
        "packets": {
            "sent": ends["bytes"] // ends["payload"],
            "radar": told.packets,
            "radar_states": told.states,
            "radar_trains": told.trains,
            "radar_unknown_latency": told.unknown,
            "captured": sum(p.packets for p in captured.values()),
            "repeated": sum(p.repeated for p in captured.values()),
            "vanished": sum(p.vanished for p in captured.values()),
            "capture_lost": captures.dropped,
            "compared": sum(path["compared"] for path in paths.values()),
        },
        "real_time": real_time,
        "sender_latest_ms": 1e3 * ends["latest_s"],
        "flows_alike": alike[True],
        "flows_other": alike[False],
        **shares(list(told.flows.values())),
        "paths": paths,
        "seconds": time.monotonic() - begin,
    }


def shares(counts):
    """Flows on each path against equal shares."""
    test = stats.chisquare(counts)
    return {"chi2": test.statistic, "p": test.pvalue}


def prepare(lab):
    """Every segment shall be a packet of its own, and none shall wait for ARP."""
    for host, router in (("h1", "10.0.1.2"), ("h2", "10.0.2.2")):
        lab.run(host, "ethtool", "-K", "eth0", "tso", "off", "gso", "off", "gro", "off")
        lab.run(host, "ping", "-c", 1, "-W", 5, router)
    for machine in paper.DELAYS_MS:
        lab.run("s1", "ping", "-c", 1, "-W", 5, f"10.1.{machine.removeprefix('s')}.6")


def in_real_time(lab, machine):
    """Has the processes of a machine run before all others: what delays shall not be late itself.

    False if the kernel refuses.
    """
    network = lab.run(machine, "readlink", "/proc/self/ns/net").strip()
    granted = False
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "ns" / "net") == network:
                for thread in (process / "task").iterdir():
                    if NO_GROUP.exists():
                        NO_GROUP.write_text(thread.name)
                    os.sched_setscheduler(int(thread.name), os.SCHED_FIFO, os.sched_param(1))
                    granted = True
        except OSError:
            pass  # it has ended, or nobody may look at it
    return granted


def traffic(lab, seed, packets):
    """Sends the flows, and returns what both ends say."""
    program = [sys.executable, HERE / "flows.py"]
    form = [ADDRESS, "--flows", paper.FLOWS, "--seed", seed]
    receiver = lab.start("h2", *program, "receive", *form, stdout=subprocess.PIPE, stderr=None, text=True)
    if receiver.stdout.readline() != "ready\n":
        raise CommandError("flows.py receive did not begin")
    sent = lab.run("h1", *program, "send", *form, "--packets", packets, "--gap", GAP_S, timeout=600)
    try:
        received, _ = receiver.communicate(timeout=30)
    except subprocess.TimeoutExpired as error:
        raise CommandError("flows.py receive did not end: not every flow arrived whole") from error
    return {**json.loads(sent), **json.loads(received)}


class Told:
    """What radar says about the packets with payload."""

    def __init__(self, radar):
        self.flows = dict.fromkeys(paper.DELAYS_MS, 0)
        for row in radar.ask("paths"):
            for machine in self.flows:
                if row["path"] == f"h1 > s1 > {machine} > s6 > h2":
                    self.flows[machine] += row["flows"]
        self.packets, self.trains, self.unknown = 0, 0, 0
        self.states = Counter()
        self.paths = defaultdict(set)  # of each flow: the machines that it came through
        self.inside = {machine: defaultdict(list) for machine in paper.DELAYS_MS}  # as captures.Passage.flows
        for packet in radar.packets("--proto", "tcp", "--dst", ADDRESS):
            if packet["len"] >= LEAST:
                self.add(packet)

    def add(self, packet):
        self.packets += packet["segs"]
        self.states[packet["state"]] += packet["segs"]
        self.trains += packet["segs"] > 1
        flow = packet["sport"], packet["dport"]
        for passed in packet["hops"]:
            machine = passed["node"]
            if machine not in self.inside:
                continue
            self.paths[flow].add(machine)
            if "node_ns" in passed:
                came = packet["t_ns"] + passed["at_ns"] - passed["node_ns"]
                self.inside[machine][flow].append((came, passed["node_ns"]))
            else:
                self.unknown += 1


def captured_paths(captured):
    """The machines that each flow came through, by captures."""
    paths = defaultdict(set)
    for machine, passage in captured.items():
        for flow in passage.flows:
            paths[flow].add(machine)
    return paths


def hop(told, captured, most_ms):
    """The latencies of one machine: radar's and the captures', and how they differ."""
    radar, truth = inside_ms(told), inside_ms(captured)
    pairs = [(a - b) / 1e3 for flow in told for a, b in same_packets(told[flow], captured.get(flow, []))]
    if not pairs:
        raise CommandError("radar and the captures of a machine have no packet in common")
    apart = numpy.abs(pairs)
    return {
        "radar": {**distribution(radar, most_ms), "points_ms": points(radar)},
        "captured": distribution(truth, most_ms),
        "ks_between": stats.ks_2samp(radar, truth, method="asymp").statistic,
        "compared": len(pairs),
        "apart_us": dict(zip(("p50", "p99", "max"), numpy.percentile(apart, [50, 99, 100]))),
    }


def same_packets(told, captured):
    """What both say of each packet of a flow that both saw: it came at the same time."""
    told = sorted(told)
    i = k = 0
    while i < len(told) and k < len(captured):
        (came, inside), (came_by_capture, inside_by_capture) = told[i], captured[k]
        if abs(came - came_by_capture) < SAME_NS:
            yield inside, inside_by_capture
        i += came < came_by_capture + SAME_NS
        k += came_by_capture < came + SAME_NS


def inside_ms(flows):
    return numpy.array([inside_ns for flow in flows.values() for _, inside_ns in flow]) / 1e6


def distribution(values_ms, most_ms):
    """Latencies against those that were set: uniform from 0 to most_ms."""
    return {
        "n": len(values_ms),
        "ks": stats.kstest(values_ms, "uniform", args=(0, most_ms)).statistic,
        "over_percent": 100 * float((values_ms > most_ms).mean()),
        "p99_9_ms": numpy.percentile(values_ms, 99.9),
        "max_ms": values_ms.max(),
    }


def points(values_ms):
    """The distribution itself: quantiles at equal distances, to be drawn."""
    return [round(v, 4) for v in numpy.percentile(values_ms, numpy.linspace(0, 100, POINTS))]


if __name__ == "__main__":
    experiment.main("01-load-balancing", measure)
