# SPDX-License-Identifier: Apache-2.0
"""Table I and II, from what run.py has measured."""

from exp import paper
from exp.figure import AS_PAPER, WORSE, Figure, Table
from exp.plots import grid

WITHOUT, WITH = "#a6a6a6", "#0072b2"
NS_PER_NODE = paper.DELAY_PER_HOP_US * 1e3

# What radar's record calls the fields of the paper's backpack, and what that is compared with.
FIELDS = {
    "ttl_original": ("TTL before it was overwritten", "ttl", "what was sent"),
    "dscp_original": ("DSCP before it was overwritten", "dscp", "what was sent"),
    "ip_id_original": ("IP ID before it was overwritten", "ip_id", "what was sent"),
    "first_hop_ts": ("time at the source", "t_ns", "lies between the sender's clock before the call and the kernel's stamp at the receiving socket"),
    "previous_hop_ts": ("time at the previous hop", "t_ns + hops[-2].at_ns", "not before that of any earlier hop, not after the stamp at the receiving socket"),
    "device_id": ("number of the device", "hops[].node_id", "each machine of the chain has its own"),
    "path": ("devices in order", "hops[].node", "the chain, which is the only way; see Table I for networks"),
}

# What else a record holds (docs/data-model.md): field, meaning, where in the example.
FURTHER = (
    ("src, dst, proto, sport, dport", "the whole 5-tuple, and at a hop what NAT made of it", lambda r: f"{r['src']}:{r['sport']} > {r['dst']}:{r['dport']} {r['proto']}"),
    ("len, segs", "IP bytes; packets of a train", lambda r: f"{r['len']}, {r['segs']}"),
    ("ecn", "ECN as sent", lambda r: r["ecn"]),
    ("ttl_sent, dscp_sent, ecn_sent", "the same when it was sent last", lambda r: r.get("ttl_sent", "as sent first")),
    ("state", "delivered, left, lost, in flight, expired, ignored", lambda r: r["state"]),
    ("hops[].in_port, port", "interfaces of each node", lambda r: f"{r['hops'][1]['in_port']}, {r['hops'][1]['port']} (r1)"),
    ("hops[].at_ns", "time at every hop, not only at the first and the previous one", lambda r: ", ".join(str(h["at_ns"]) for h in r["hops"])),
    ("hops[].node_ns", "time inside a node", lambda r: f"{r['hops'][1].get('node_ns')} (r1)"),
    ("hops[].link_ns", "time on a link", lambda r: f"{r['hops'][1].get('link_ns')} (to r1)"),
    ("hops[].queue_ns", "wait in a port's queue", lambda r: r["hops"][1].get("queue_ns", "absent: no queue")),
    ("latency_ns", "first to last stamp", lambda r: r["latency_ns"] if r["state"] in ("delivered", "left") else "absent: not arrived"),
    ("loss", "node, port, place, reason, queue, kernel function, time", lambda r: r.get("loss", "absent: not lost")),
    ("local_drop", "the same of a drop after delivery", lambda r: r.get("local_drop", "absent: none")),
    ("hops[].prev, outcome", "the tree of a packet's copies", lambda _: "absent: no copies"),
    ("inner", "the packet inside a tunnel's", lambda r: r.get("inner", "absent: no tunnel")),
    ("frag_off, frag_id, flow_label, icmp_*", "of fragments, IPv6 and ICMP", lambda r: r.get("frag_off", "absent: not such a packet")),
)


def show(result):
    return [properties(result["data"]), metadata(result["data"]["metadata"])]


def per_node(hooks):
    """ns of a packet in each node's programs."""
    nodes = {}
    for hook in hooks:
        nodes[hook["machine"]] = nodes.get(hook["machine"], 0) + hook["ns"]
    return nodes


def check(data):
    """Of each property: whether it holds, and the numbers for it."""
    fine, networks, bandwidth, deploy = data["fine"], data["networks"], data["bandwidth"], data["deploy"]
    nodes = per_node(data["cpu"]["hooks"])
    one, other = bandwidth["without"], bandwidth["with"]
    differ = [side for side in one["links"] if one["links"][side] != other["links"][side]]
    sent, right = (sum(n[key] for n in networks.values()) for key in ("sent", "paths_right"))
    machines = sum(n["machines"] for n in networks.values())
    changed = sum(deploy["changed_attached"].values()) + sum(deploy["changed_detached"].values())
    streams = [deploy["stream_attach"], deploy["stream_detach"]]
    harmed = sum(s["sent"] - s["received"] + s["twice"] + s["out_of_order"] + s["wrong_headers"] for s in streams)
    longest = list(one["arrived_by_frame"])[-1]
    mtus = one["mtus"] == other["mtus"]
    return {
        "fine-grained": (
            fine["sent"] == fine["received"] == fine["received_once"] == fine["records"]
            and fine["missing"] + fine["twice"] + fine["not_measured"] + fine["wrong_headers"] == 0,
            f"{fine['sent']} datagrams sent, {fine['received']} received at the socket, {fine['records']} records: {fine['missing']} missing, {fine['twice']} twice",
        ),
        "light in CPU": (
            bool(nodes) and max(nodes.values()) < NS_PER_NODE,
            f"{max(nodes.values(), default=float('nan')):.0f} ns a packet in the programs of the dearest node (below {NS_PER_NODE:.0f}); "
            f"the agent took {data['cpu']['agent_percent']:.1f} % of a core at {data['cpu']['rate']} packets a second. Per cent points: experiment 04",
        ),
        "light in bandwidth": (
            not differ and mtus and all(side["arrived_by_frame"][longest] == side["of_each_frame"] for side in (one, other)),
            f"{len(differ)} of {len(one['links'])} counters of bytes and packets differ with radar; {other['arrived_by_frame'][longest]} of {other['of_each_frame']} "
            f"frames of {longest} bytes with DF arrived; {'no MTU' if mtus else 'MTUs'} changed",
        ),
        "network-wide": (
            sent == right and all(n["not_measured"] == 0 for n in networks.values()),
            f"{right} of {sent} packets in {len(networks)} networks ({machines} machines, one attach each) have one record with the path that tcpdump saw",
        ),
        "easy to deploy": (
            changed == 0 and harmed == 0 and not deploy["left_behind"] and deploy["changes_seen"] > 0,
            f"one command, {deploy['attach_s']:.1f} s; {changed} of {sum(deploy['settings'].values())} lines of settings changed; "
            f"{sum(s['sent'] for s in streams)} packets passed while it was attached and detached, {harmed} harmed",
        ),
    }


def properties(data):
    verdicts = check(data)
    held = [name for name in paper.PROPERTIES if verdicts[name][0]]
    bandwidth, deploy = data["bandwidth"], data["deploy"]

    def draw(figure):
        left, right = figure.subplots(1, 2)
        sides = [s for s, (size, _) in bandwidth["without"]["links"].items() if size]
        for offset, name, colour in ((-0.2, "without", WITHOUT), (0.2, "with", WITH)):
            values = [bandwidth[name]["links"][s][0] / 1e3 for s in sides]
            left.barh([i + offset for i in range(len(sides))], values, 0.4, color=colour, label=f"{name} radar")
        left.set_yticks(range(len(sides)), sides)
        left.set_ylim(len(sides) - 0.5, -1.7)  # room for the legend
        grid(left, "Bytes on the links, by the kernel", "kB", "")
        left.legend(fontsize=7, loc="upper center", ncol=2)
        bottoms = {}
        for hook in data["cpu"]["hooks"]:
            bottom = bottoms.get(hook["machine"], 0)
            colour = "#56b4e9" if hook["direction"] == "in" else WITH
            right.bar(hook["machine"], hook["ns"], bottom=bottom, color=colour)
            bottoms[hook["machine"]] = bottom + hook["ns"]
        right.bar(0, 0, color="#56b4e9", label="ingress")
        right.bar(0, 0, color=WITH, label="egress")
        right.axhline(NS_PER_NODE, color="black", linestyle="--", linewidth=0.8, label="paper: delay of a hop, about")
        grid(right, "radar's programs, by the kernel", "", "ns a packet")
        right.legend(fontsize=7, loc="center right")

    keys = ("machines", "flows", "sent", "received_once", "packets_with_one_record", "paths_right", "sights")
    tables = [
        Table(
            ["property", "paper claims", "here", "shown by"],
            [[name, "yes", "yes" if verdicts[name][0] else "NO", verdicts[name][1]] for name in paper.PROPERTIES],
        ),
        Table(
            ["network", "machines", "flows", "sent", "received once", "one record", "path as tcpdump's", "tcpdump saw", "paths", "attach, s"],
            [
                [name, *(n[key] for key in keys), len(n["paths"]), f"{n['attach_s']:.1f}"]
                for name, n in data["networks"].items()
            ],
            "A path is every port that the packet passed, in order. tcpdump ran in every machine; a number in the payload says which packet it saw.",
        ),
        Table(
            ["settings of the machines", "lines compared", "differ while attached", "differ after detach"],
            [[what, lines, deploy["changed_attached"][what], deploy["changed_detached"][what]] for what, lines in deploy["settings"].items()],
            f"{deploy['machines']} machines. The comparison is tried, too: an MTU set to 1499 showed as {deploy['changes_seen']} lines. "
            f"Files left behind after detach ({deploy['detach_s']:.1f} s): {len(deploy['left_behind'])}.",
        ),
    ]
    missed = [name for name in paper.PROPERTIES if name not in held]
    return Figure(
        "table-1", "What the paper claims to be, property by property", "Table I", AS_PAPER if not missed else WORSE,
        f"{len(held)} of {len(paper.PROPERTIES)} properties hold" + (f", not {', '.join(missed)}" if missed else "")
        + f": {verdicts['fine-grained'][1]}; {verdicts['network-wide'][1]}.",
        draw, (8.4, 3.6), tables,
    )


def value(record, name):
    """What a record holds of a field of the paper's."""
    if not record:
        return "no record"
    if name == "first_hop_ts":
        return record["t_ns"]
    if name == "previous_hop_ts":
        return record["t_ns"] + record["hops"][-2]["at_ns"]
    if name == "device_id":
        return ", ".join(str(h["node_id"]) for h in record["hops"])
    if name == "path":
        return " > ".join(h["node"] for h in record["hops"])
    return record[{"ttl_original": "ttl", "dscp_original": "dscp", "ip_id_original": "ip_id"}[name]]


def metadata(data):
    compared, right, example, sent = data["compared"], data["right"], data["example"], data["example_sent"]
    whole = [name for name in paper.METADATA if compared and right.get(name, 0) == compared]
    truths = {**{f"{key}_original": sent[key] for key in ("ttl", "dscp", "ip_id")}, "first_hop_ts": f"sent after {sent['time_ns']}"}

    def draw(figure):
        axes = figure.add_subplot()
        shares = [p / 100 for p in data["percents"]]
        for values, colour, label in (
            (data["after_send_ns"], WITH, "first_hop_ts, after the sender's clock before the call"),
            (data["previous_hop_before_end_ns"], "#d55e00", "previous_hop_ts, before the stamp at the receiving socket"),
            (data["before_end_ns"], "#009e73", "first_hop_ts, before the stamp at the receiving socket"),
        ):
            axes.plot([v / 1e3 for v in values], shares, color=colour, label=label)
        axes.set_xscale("symlog", linthresh=0.1)  # would show one below 0
        axes.axvline(0, color="black", linewidth=0.8)
        grid(axes, f"Stamps of {compared} records beside clocks that are not radar's", "us (never below 0 if right)", "share of packets")
        axes.legend(fontsize=7, loc="lower right")

    tables = [
        Table(
            ["paper's field", "meaning", "radar's field", "in one record", "sent", "right in", "compared with"],
            [
                [name, FIELDS[name][0], FIELDS[name][1], value(example, name), truths.get(name, "-"), f"{right.get(name, 0)} of {compared}", FIELDS[name][2]]
                for name in paper.METADATA
            ],
        ),
        Table(["further in a record", "meaning", "in the same record"], [[name, meaning, of(example)] for name, meaning, of in FURTHER if example]),
    ]
    return Figure(
        "table-2", "Metadata of a packet beside the paper's", "Table II", AS_PAPER if len(whole) == len(paper.METADATA) else WORSE,
        f"{len(whole)} of the paper's {len(paper.METADATA)} fields are in every one of {compared} records and agree with what was sent, or with other clocks; "
        f"records hold {len(FURTHER)} groups of fields more.",
        draw, (6.4, 3.4), tables,
    )
