# SPDX-License-Identifier: Apache-2.0
"""Fig. 4 and 5, from what run.py has measured."""

from exp import paper
from exp.figure import AS_PAPER, NOT_COMPARABLE, NOT_RUN, WORSE, Figure, Table
from exp.plots import grid

# Where it was measured: the key in the result, and its name.
PLACES = {"namespaces": "namespaces", "kathara": "Kathará", "netem": "netem"}

LEAST_P = 0.001  # equal chances give less than that once in a thousand runs
MOST_KS = 0.05  # from the latencies of a hop to the distribution that was set
MOST_OVER_PERCENT = 5  # of its packets, above the set maximum: "a few"
MOST_KS_BETWEEN = 0.01  # from radar's latencies to those of captures

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # of places, or of hops


def show(result):
    data = result["data"]
    ran = [(name, data[key]) for key, name in PLACES.items() if "paths" in data.get(key, {})]
    not_run = [(name, data.get(key, {}).get("not_run", "no result")) for key, name in PLACES.items() if "paths" not in data.get(key, {})]
    return [flows_on_paths(data, ran, not_run), latencies(data, ran, not_run)]


def reasons(not_run):
    """Why some places have no numbers, for a caption."""
    return "".join(f" {name} was not run: {why}." for name, why in not_run)


def flows_on_paths(data, ran, not_run):
    title = "Load balancing: flows on each path"
    if not ran:
        return Figure("fig-4", title, "Fig. 4", NOT_RUN, reasons(not_run).strip())
    alike = sum(there["flows_alike"] for _, there in ran)
    other = sum(there["flows_other"] for _, there in ran)
    finding = "; ".join(f"{name}: {', '.join(map(str, counts(there)))} flows (chi-square p {there['p']:.2f})" for name, there in ran)
    finding += f". Captures say the same path for {alike} of {alike + other} flows."
    if other:
        verdict = WORSE
    elif any(there["p"] < LEAST_P for _, there in ran):
        verdict = NOT_COMPARABLE
        finding += " The router's hash gave unequal shares."
    else:
        verdict = AS_PAPER

    def draw(figure):
        axes = figure.add_subplot()
        machines, width = list(paper.DELAYS_MS), 0.8 / len(ran)
        for i, (name, there) in enumerate(ran):
            at = [k + (i - (len(ran) - 1) / 2) * width for k in range(len(machines))]
            bars = axes.bar(at, counts(there), 0.92 * width, label=name, color=COLOURS[i], zorder=2)
            axes.bar_label(bars, fontsize=8, padding=-12, color="white")
        equal = data["flows"] / len(machines)
        axes.axhline(equal, color="black", linestyle="--", linewidth=0.8, zorder=1, label="equal shares")
        grid(axes, f"{data['flows']} flows", "", "flows, by radar")
        axes.set_xticks(range(len(machines)), [f"by {machine}" for machine in machines])
        axes.set_ylim(0, 1.45 * equal)
        axes.legend(fontsize=8, ncols=len(ran) + 1, loc="upper center", frameon=False)

    return Figure("fig-4", title, "Fig. 4", verdict, finding, draw, tables=[flow_table(data, ran, not_run)])


def counts(there, what="flows"):
    return [path[what] for path in there["paths"].values()]


def flow_table(data, ran, not_run):
    columns = {"": [*paper.DELAYS_MS, "chi-square p"], "paper": ["close to 100"] * paper.PATHS + ["-"]}
    caption = f"Flows by each machine. {data['flows']} flows of {data['packets_per_flow']} packets"
    for name, there in ran:
        columns[f"{name}: radar"] = [*counts(there), f"{there['p']:.2f}"]
        columns[f"{name}: captures"] = [*counts(there, "flows_captured"), "-"]
        if "kernel" in there:
            release = there["kernel"].partition("+")[0].partition("-")[0]  # its number
            caption += f"; {name}: {there['packets_per_flow']} packets of UDP, Linux {release} in an emulated machine"
    for name, _ in not_run:
        columns[name] = ["not run"] * (paper.PATHS + 1)
    return Table(list(columns), [list(row) for row in zip(*columns.values())], f"{caption}.{reasons(not_run)}")


def latencies(data, ran, not_run):
    title = "Load balancing: latency in each hop"
    if not ran:
        return Figure("fig-5", title, "Fig. 5", NOT_RUN, reasons(not_run).strip())
    finding = "; ".join(f"{name}: {worst(there)}" for name, there in ran) + "."
    late = [name for name, there in ran if not all(is_as_set(path) for path in there["paths"].values())]
    # An emulated machine pauses between the stamps of radar and of captures; its test checks that.
    real = [path for _, there in ran if "kernel" not in there for path in there["paths"].values()]
    if any(path["ks_between"] > MOST_KS_BETWEEN for path in real):
        verdict = WORSE
    else:
        verdict = AS_PAPER if len(late) < len(ran) else NOT_COMPARABLE
        if late:
            finding += f" What delays was late itself, by the captures: {', '.join(late)}."

    def draw(figure):
        for i, (name, there) in enumerate(ran):
            axes = figure.add_subplot(1, len(ran), i + 1)
            draw_latencies(axes, there, data["most_ms"])
            grid(axes, name, "time in the hop, ms", "packets, %" if i == 0 else "")
        axes.legend(fontsize=8, loc="lower right")

    size = (3.2 * max(len(ran), 2), 3.6)
    return Figure("fig-5", title, "Fig. 5", verdict, finding, draw, size, [latency_table(data, ran, not_run), packet_table(ran)])


def is_as_set(path):
    return path["radar"]["ks"] <= MOST_KS and path["radar"]["over_percent"] <= MOST_OVER_PERCENT


def worst(there):
    """The greatest differences of a place's hops."""
    paths = there["paths"].values()
    ks, over = (max(path["radar"][what] for path in paths) for what in ("ks", "over_percent"))
    between, apart = max(path["ks_between"] for path in paths), max(path["apart_us"]["p50"] for path in paths)
    return (
        f"at most KS distance {ks:.3f} from what was set, {over:.1f} % above its maximum; "
        f"from captures {between:.4f}, and {duration(apart)} for the median packet"
    )


def duration(us):
    return f"{us:.1f} us" if us < 1000 else f"{us / 1000:.1f} ms"


def draw_latencies(axes, there, most_ms):
    for colour, (machine, path) in zip(COLOURS, there["paths"].items()):
        points = path["radar"]["points_ms"]
        share = [100 * i / (len(points) - 1) for i in range(len(points))]
        # In steps: nothing says how the few packets lie between the last two points.
        axes.plot(points, share, drawstyle="steps-post", color=colour, linewidth=1.6, label=f"{machine}, by radar")
        axes.plot([0, most_ms[machine]], [0, 100], color="black", linestyle=":", linewidth=1)
    axes.plot([], [], color="black", linestyle=":", linewidth=1, label="as set")
    # What was far too late is in the table: here it would press the lines together.
    axes.set_xlim(0, 1.15 * max(most_ms.values()))


def latency_table(data, ran, not_run):
    columns = ["hop", "set", "packets", "paper", "KS: radar", "KS: captures", "KS: between"]
    columns += ["above: radar", "above: captures", "99.9 %", "apart: median, 99 %"]
    rows = []
    for name, there in ran:
        for machine, path in there["paths"].items():
            radar, captured, apart = path["radar"], path["captured"], path["apart_us"]
            row = [f"{name}, {machine}", f"0-{data['most_ms'][machine]} ms", radar["n"], "as set, a few above"]
            row += [f"{radar['ks']:.4f}", f"{captured['ks']:.4f}", f"{path['ks_between']:.4f}"]
            row += [f"{radar['over_percent']:.2f} %", f"{captured['over_percent']:.2f} %", f"{radar['p99_9_ms']:.1f} ms"]
            rows.append([*row, f"{duration(apart['p50'])}, {duration(apart['p99'])}"])
    rows += [[name, *["not run"] * (len(columns) - 1)] for name, _ in not_run]
    caption = (
        "KS: Kolmogorov-Smirnov distance to the uniform distribution that was set; between: from radar's latencies to the captures'. "
        "Above: packets over the set maximum. 99.9 %: of radar's latencies. Apart: radar and captures, packet by packet."
    )
    return Table(columns, rows, caption + reasons(not_run))


def packet_table(ran):
    """Whether everybody saw the same packets."""
    columns = ["", "sent", "radar", "without latency", "captures", "sent again", "did not come out", "compared", "lost by tcpdump", "forwarders run first"]
    keys = ("sent", "radar", "radar_unknown_latency", "captured", "repeated", "vanished", "compared", "capture_lost")
    rows = [
        [name, *(there["packets"][key] for key in keys), "yes" if there["real_time"] else "no"] for name, there in ran if "packets" in there
    ]
    caption = (
        "Packets with payload from h1 to h2. Without latency: the forwarder, which gets its copy first, was quicker than radar's hook. "
        "Sent again: by TCP, where something was late. Forwarders run first: as real-time processes, if the kernel grants it. "
        "The netem test fails if a packet is missing."
    )
    return Table(columns, rows, caption)
