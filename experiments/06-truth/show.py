# SPDX-License-Identifier: Apache-2.0
"""Times, losses, cost and identifiers, from what run.py has measured."""

import math

from exp.figure import HOLDS, HOLDS_NOT, Figure, Table
from exp.plots import grid

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
GREY = "#a6a6a6"
HOP_US = 2  # what medians may differ by where both stamps stand side by side
SHARE = 0.99  # of all times that must lie within the bound
RATIO = 1.10  # that a curve may rise to (docs/performance.md)
OFF = 0.02  # share of packets that a model may be off by
SIGMAS = 4
REASONS = 0.999  # of all losses whose place and reason radar must tell (docs/times-and-losses.md: the kernel does not show it every drop)

# Each kind of time: what is compared, and what the places of the stamps alone do to it. Ours
# is made at TC, on the way out before queue and tap, on the way in behind the tap.
KINDS = {
    "hop": ("leaving a node to leaving the next one", "0: both stamps side by side", lambda us: abs(us) <= HOP_US),
    "node": ("inside a node", "less: stamped later at its begin, earlier at its end", lambda us: us < 0),
    "link": ("on a link", "more, as much as nodes are less", lambda us: us > 0),
    "queue": ("inside a node and in its queue", "less: stamped later at its begin", lambda us: us < 0),
    "unseen wait": ("node and next link, where radar did not see the wait", "0: both ends at ingress", lambda us: abs(us) <= HOP_US),
    "end to end": ("first to last stamp", "more, as a link", lambda us: us > 0),
}


def show(result):
    data = result["data"]
    return [times(data["accuracy"]["loads"]), losses(data["losses"]), curves(data["curves"]), identifiers(data["space"], data["small_ring"])]


# Times.


def times(loads):
    kinds = [k for k in KINDS if any(k in load["errors"] for load in loads)]
    every = [(load, kind, load["errors"][kind]) for kind in kinds for load in loads if kind in load["errors"]]
    count = sum(e["count"] for _, _, e in every)
    within = sum(e["within"] for _, _, e in every)
    bound = f"{loads[0]['bound_ns'] / 1e3:.0f} us"
    hops = max((abs(e["median_ns"]) / 1e3 for _, kind, e in every if kind == "hop"), default=math.inf)
    missed = sum(load["sent"] - load["compared"] for load in loads)
    good = within >= SHARE * count and hops <= HOP_US and missed == 0

    def row(load, kind, e):
        what, expected, fits = KINDS[kind]
        middle, most, greatest = (e[key] / 1e3 for key in ("median_ns", "p99_away_ns", "max_away_ns"))
        share_within = f"{100 * e['within'] / e['count']:.2f} %"
        return [kind, what, load["load"], e["count"], f"{middle:+.2f}", f"{most:.1f}", f"{greatest:.1f}", share_within, expected, "yes" if fits(middle) else "NO"]

    table = Table(
        ["time", "what", "load", "compared", "median, us", "99 % of distances, us", "greatest, us", f"within {bound}", "expected of the median", "is"],
        [row(*one) for one in every],
        "radar's time less that of tcpdump (nanoseconds) in every machine, for the packet with the same number. A capture's stamp is the kernel's: on the way out "
        "as the packet is handed to the link, behind TC and the queue; on the way in as the link hands it over, before TC. "
        "The slower the load, the colder the caches between two stamps.",
    )
    waits = next((load["waits_ms"] for load in loads if load["waits_ms"]), None)
    finding = (
        f"{100 * within / max(count, 1):.2f} % of {count} times lie within {bound} of the captures' (wanted {100 * SHARE:.0f} %); "
        f"from egress to egress the medians differ by {hops:.2f} us at most (wanted {HOP_US}). {missed} packets without a record to compare."
    )
    if waits:
        finding += f" Waits in the queue were {waits[0]:.1f} to {waits[2]:.1f} ms."
    return Figure(
        "truth-times", "Are the times true?", "-", HOLDS if good else HOLDS_NOT, finding,
        lambda figure: draw_times(figure, loads, [k for k in kinds if k != "unseen wait"]), (8.4, 5.2), [table],
    )


def draw_times(figure, loads, kinds):
    columns = math.ceil(len(kinds) / 2)
    for i, kind in enumerate(kinds):
        axes = figure.add_subplot(2, columns, i + 1)
        for load, colour in zip(loads, COLOURS):
            if kind in load["errors"]:
                e = load["errors"][kind]
                axes.plot([q / 1e3 for q in e["quantiles_ns"]], [p / 100 for p in e["percents"]], color=colour, label=load["load"])
        axes.axvline(0, color="black", linewidth=0.6)
        axes.set_xscale("symlog", linthresh=1)
        ticks = (-100, -10, -1, 0, 1, 10, 100)
        axes.set_xticks(ticks, ticks)
        axes.set_xlim(-200, 200)
        grid(axes, f"{kind}: {KINDS[kind][0]}", "radar less captures, us", "share")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside upper center", ncol=len(loads), fontsize=8)
    if len(kinds) % 2:
        note = figure.add_subplot(2, columns, len(kinds) + 1)
        note.axis("off")
        note.text(0, 0.5, "The steps beside 0 are where\nthe stamps are made, see the table.", fontsize=8, va="center")


# Losses.


def losses(data):
    rows = data["rows"]
    wrong = [r["kind"] for r in rows if not r["found"] == r["counted"] == r["missing"] or r["other_packets"]]
    made, found, told = (sum(r[key] for r in rows) for key in ("counted", "found", "right_reason"))
    good = not wrong and told >= REASONS * made
    names = [r["kind"] + (" (after delivery)" if r["local"] else "") for r in rows]

    def draw(figure):
        axes = figure.add_subplot()
        bars = (("missing", "sent, not received", GREY), ("counted", "counted by what lost them", COLOURS[1]), ("right_reason", "radar: right place and reason", COLOURS[0]))
        for i, (key, label, colour) in enumerate(bars):
            axes.barh([n + 0.27 * (i - 1) for n in range(len(rows))], [r[key] for r in rows], 0.26, color=colour, label=label)
        axes.set_yticks(range(len(rows)), names)
        axes.invert_yaxis()
        grid(axes, "Packets lost, by kind", "packets", "")
        axes.legend(fontsize=8)

    keys = ("sent", "missing", "counted_by", "counted", "found", "right_place", "right_reason", "other_packets")
    table = Table(
        ["kind", "sent", "not received", "counted by", "count", "radar", "in the right place", "for the right reason", "other packets", "radar says"],
        [[name, *(r[key] for key in keys), "; ".join(map(place, r["places"]))] for name, r in zip(names, rows)],
        "All kinds but the last two are sent mixed. Other packets: those that only radar or only the receiver misses. After delivery: radar loss --after-delivery. "
        "What is lost in user space no kernel tells of: radar sees that it did not come out. The same becomes of drops that the kernel does not show: "
        f"its hook was busy with another one for {max(r['missed_by_hook'] for r in rows)} of them, or a process was running that it protects from all hooks.",
    )
    return Figure(
        "truth-losses", "Are the losses true?", "-", HOLDS if good else HOLDS_NOT,
        f"radar found {found} of {made} losses of {len(rows)} kinds, " + (f"not the same packets of: {', '.join(wrong)}; " if wrong else "the very packets; ")
        + f"it tells the right place and reason of {told} (wanted {100 * REASONS:.1f} %).",
        draw, (8.0, 5.0), [table],
    )


def place(found):
    node, port, at, reason, _, function, packets = found
    return f"{node} {port} {at} {reason}{f' ({function})' if function else ''}: {packets}"


# Cost.


def curves(data):
    worst = {name: max((p["ratio"][0] for p in curve["points"] if p["ratio"]), default=math.nan) for name, curve in data.items()}
    high = [name for name, ratio in worst.items() if not ratio <= RATIO]

    def draw(figure):
        for i, (curve, colour) in enumerate(zip(data.values(), COLOURS)):
            axes = figure.add_subplot(1, len(data), i + 1)
            points = [p for p in curve["points"] if p["ns"]]
            places = range(len(points))
            middle = [p["ns"][0] for p in points]
            errors = [[p["ns"][0] - p["ns"][1] for p in points], [p["ns"][2] - p["ns"][0] for p in points]]
            axes.errorbar(places, middle, yerr=errors, marker="o", capsize=2, color=colour)
            axes.axhline(RATIO * middle[0], color="black", linestyle="--", linewidth=0.8)
            axes.set_xticks(places, [p["at"] for p in points], rotation=30)
            axes.set_ylim(0, 1.15 * max(RATIO * middle[0], *(p["ns"][2] for p in points)))
            grid(axes, "", curve["what"], "ns a packet, all hooks" if i == 0 else "")
        figure.suptitle(f"Median, least and greatest; dashed: {RATIO:.2f} times the first", fontsize=9)

    tables = [
        Table(
            [curve["what"], "ns a packet, all hooks", "of the first", "not measured"],
            [[p["at"], spread(p["ns"], ".0f", ""), spread(p["ratio"], ".2f", "x"), spread(p["not_measured_percent"], ".1f", " %")] for p in curve["points"]],
            "; ".join(note.rstrip(".") for note in curve["notes"]) + ".",
        )
        for curve in data.values()
    ]
    names = {"curve-slots": "a full ring", "curve-flows": "flows", "curve-ports": "ports"}
    return Figure(
        "truth-curves", "What does cost grow with?", "-", HOLDS_NOT if high else HOLDS,
        "At worst a packet costs " + ", ".join(f"{ratio:.2f}x with {names[name]}" for name, ratio in worst.items())
        + f" (wanted {RATIO:.2f}x" + (f", not reached with {' and '.join(names[n] for n in high)})." if high else ")."),
        draw, (8.4, 3.2), tables,
    )


def spread(values, form, unit):
    return "-" if not values else f"{values[0]:{form}}{unit} ({values[1]:{form}} to {values[2]:{form}})"


# Identifiers.


def identifiers(space, small):
    real, most = small["rows"], max(space["points"], key=lambda p: p["in_flight"])
    wrong = sum(r["wrong_headers"] + r["wrong_records"] + r["twice"] for r in real)
    off_real = max(abs(r["no_slot"] - r["expected_no_slot"]) / r["sent"] for r in real)
    fails = [
        text
        for text, bad in (
            ("a simulation of the 26 bits is not as calculated", max(map(sigmas, space["random"] + space["counter"]["points"])) > SIGMAS),
            ("a simulation of the ring is not as calculated", off_ring(space) > OFF),
            ("the ring for real is not as calculated", off_real > OFF),
            ("a header or record is wrong", wrong > 0),
        )
        if bad
    ]
    finding = (
        f"With {most['in_flight']:,.0f} packets in flight the paper's 26 bits collide for {share(most['random'])} of the packets (random values) or "
        f"{share(most['counter'])} (a counter); a ring of 2^24 slots never collides and leaves {share(most['rings']['24'])} not measured, but one of 2^20, "
        f"the default, {share(most['rings']['20'])}. For real, up to {max(r['in_flight'] for r in real):.0f} in flight over {small['slots']} slots: "
        f"{wrong} wrong headers or records; not measured {', '.join(percent(r, 'no_slot') for r in real)}, calculated {', '.join(percent(r, 'expected_no_slot') for r in real)}."
    )
    return Figure(
        "truth-identifiers", "Are there enough identifiers?", "-", HOLDS_NOT if fails else HOLDS,
        finding + (f" But {' and '.join(fails)}." if fails else ""),
        lambda figure: draw_identifiers(figure, space, small), (9.6, 3.6), [of_rates(space, most), of_small(small), of_models(space)],
    )


def sigmas(point):
    """How far a simulation is from its formula, in standard deviations of the count."""
    expected = point["looked"] * point["formula"]
    return abs(point["met"] - expected) / math.sqrt(max(expected, 1))


def off_ring(space):
    """How far the ring's simulation is from its formula, as a share of the packets."""
    return max(max(p["low"] - p["share"], p["share"] - p["high"], 0) for p in space["ring"]["points"])


def of_rates(space, most):
    return Table(
        ["packets a second", "delay", "in flight", "paper: random, collide", "paper: counter, collide", *(f"radar 2^{bits}: not measured" for bits in most["rings"])],
        [
            [f"{p['rate']:,.0f}", f"{p['delay_s'] * 1e3:g} ms", f"{p['in_flight']:,.0f}", *map(share, (p["random"], p["counter"], *p["rings"].values()))]
            for p in space["points"]
            if p["in_flight"] >= 1e4
        ],
        "Calculated, delays exponential. A collision would give two packets one backpack: wrong records, and wrong headers behind the sink. "
        "What is not measured passes as it is, and is counted. One 3-tuple, as in the paper; F flows of equal rate collide F times as rarely. "
        "The paper does not say how values are chosen; of its values those with a TTL of 0 or 1 (one in 128) cannot pass a router, and are taken to be of use here. "
        "A slot of radar's is kept for 10 ms at least.",
    )


def of_small(small):
    return Table(
        ["delay", "packets a second", "in flight", "sent", "not measured", "calculated", "records read", "wrong records", "wrong headers", "not read in time"],
        [
            [r["kind"], r["rate"], f"{r['in_flight']:.0f}", r["sent"], f"{r['no_slot']} ({percent(r, 'no_slot')})",
             f"{r['expected_no_slot']} ({percent(r, 'expected_no_slot')})", r["records"], r["wrong_records"] + r["twice"], r["wrong_headers"], r["unread"]]
            for r in small["rows"]
        ],
        f"A ring of {small['slots']} slots, a forwarder in user space with {small['delay_s']:.0f} s of delay, from the first packet on: the ring fills first. "
        "Calculated: the model of the ring with each packet's own time and delay, as sockets saw them. Every packet's header is checked where it arrives, measured or not; "
        "records by number, header and times. A full ring comes round so fast that not every record is read before its slot is taken again: "
        "the last column is what the agent missed, by radar status; the records are those that radar packets -f could read.",
    )


def of_models(space):
    ring, counter = space["ring"], space["counter"]
    return Table(
        ["simulation beside formula", "points", "worst"],
        [
            ["26 bits, random values", len(space["random"]), f"{max(map(sigmas, space['random'])):.1f} standard deviations"],
            [f"26 bits, a counter (scaled to {counter['values']} values)", len(counter["points"]), f"{max(map(sigmas, counter['points'])):.1f} standard deviations"],
            [f"ring of {ring['slots']} slots", len(ring["points"]), f"{100 * off_ring(space):.2f} % of the packets"],
        ],
        f"The ring as bpf/backpack/ring.h has it: a source steps over {space['max_skip']} packets in flight, and does not leave its block of {ring['block']} slots. "
        "Delays are constant, exponential, or have a heavy tail: a Pareto distribution of shape 1.5, thirty times the mean at most.",
    )


def draw_identifiers(figure, space, small):
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.2, 1, 0.8])
    lines = [("random", space["random"], "random values")]
    lines += [(k, [p for p in space["counter"]["points"] if p["kind"] == k], f"a counter, {k}") for k in ("exponential", "heavy tail")]
    for (key, points, label), colour in zip(lines, COLOURS):
        left.plot(space["curves"]["in_flight"], space["curves"][key], color=colour, label=label)
        seen = [p for p in points if p["met"]]
        left.plot([p["in_flight"] for p in seen], [p["met"] / p["looked"] for p in seen], "o", markersize=4, color=colour)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_ylim(1e-8, 1)
    grid(left, "The paper's 26 bits: collisions", "packets in flight", "share of packets (dots: simulated)")
    left.legend(fontsize=7, loc="lower right")
    for kind, colour in zip(("constant", "exponential", "heavy tail"), COLOURS):
        middle.plot(space["ring"]["loads"], space["ring"][kind], color=colour, label=kind)
        points = [p for p in space["ring"]["points"] if p["kind"] == kind]
        middle.plot([p["load"] for p in points], [p["share"] for p in points], "o", markersize=4, color=colour)
    middle.set_yscale("log")
    middle.set_ylim(1e-5, 1)
    grid(middle, "radar's ring: not measured", "packets in flight / slots", "")
    middle.legend(fontsize=7, loc="lower right")
    rows = small["rows"]
    for offset, key, label, colour in ((-0.2, "expected_no_slot", "calculated", GREY), (0.2, "no_slot", "radar status", COLOURS[0])):
        right.bar([i + offset for i in range(len(rows))], [r[key] / r["sent"] for r in rows], 0.4, color=colour, label=label)
    right.set_xticks(range(len(rows)), [f"{r['kind'][:5]}.\n{r['in_flight']:.0f}" for r in rows], rotation=0 if len(rows) < 5 else 90)
    right.set_ylim(0, 0.2 + max(r["no_slot"] / r["sent"] for r in rows))
    grid(right, f"{small['slots']} slots, for real", "packets in flight", "share not measured")
    right.legend(fontsize=7, loc="upper left")


def share(value):
    return "< 1e-9" if value < 1e-9 else f"{value:.1e}" if value < 1e-6 else f"{100 * value:.2g} %"


def percent(row, key):
    return f"{100 * row[key] / row['sent']:.1f} %"
