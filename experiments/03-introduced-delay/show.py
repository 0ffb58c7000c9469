# SPDX-License-Identifier: Apache-2.0
"""Fig. 8, from what run.py has measured."""

import numpy
import pandas

from exp import paper, schemes
from exp.figure import AS_PAPER, BETTER, WORSE, Figure, Table
from exp.plots import grid, intervals
from exp.stats import mean_interval

# In how many directions a scheme touches packets.
DIRECTIONS = {schemes.NOP: 2, schemes.RADAR: 2, schemes.TCPDUMP: 2, schemes.IN_BAND: 1}


def show(result):
    data = result["data"]
    rows = pandas.DataFrame(data["rows"])
    took = rows.pivot_table(index=["round", "routers"], columns="scheme", values="exchange_us")
    names = [s for s in DIRECTIONS if s in took.columns]
    # Of each round what was added to that round's own time without: what the machine was
    # slower by in between is in both.
    added = pandas.DataFrame({s: (took[s] - took[schemes.NONE]) / DIRECTIONS[s] for s in names})
    routers = sorted(rows.routers.unique())
    added_one_way = {s: [mean_interval(added[s].xs(n, level="routers")) for n in routers] for s in names}
    per_hop = {s: slope(added[s]) for s in names}
    radar, low, high = per_hop[schemes.RADAR]

    def draw(figure):
        axes = figure.add_subplot()
        intervals(axes, routers, added_one_way)
        axes.plot(routers, [n * paper.DELAY_PER_HOP_US for n in routers], linestyle="--", color="black", linewidth=0.8, label="paper: about 1 us a hop")
        grid(axes, f"added one way, means and 95 % intervals of {data['rounds']} rounds", "routers", "us")
        axes.legend(fontsize=8)

    beside = Table(
        ["", "paper", "here, us a hop (95 %)"],
        [[s, {schemes.RADAR: "about 1 us a hop", schemes.TCPDUMP: "as vNetRadar", schemes.IN_BAND: "a little less (PPTMon)"}.get(s, "-"),
          "{:.2f} ({:.2f} to {:.2f})".format(*per_hop[s])] for s in names],
        "The slope of a straight line through all rounds: what a further router adds, one way.",
    )
    whole = Table(
        ["routers", "none, us", *[f"{s}, added one way" for s in names], "radar of none", "radar of nop"],
        [
            [n, f"{took[schemes.NONE].xs(n, level='routers').median():.1f}", *["{:.2f} ({:.2f} to {:.2f})".format(*added_one_way[s][i]) for s in names],
             *[f"{(took[schemes.RADAR] / took[other]).xs(n, level='routers').median():.2f}x" for other in (schemes.NONE, schemes.NOP)]]
            for i, n in enumerate(routers)
        ],
        f"{'Medians' if data.get('medians') else 'Means'} of {data['pings']} echoes and replies, one after the other, as ping -f. Schemes that see both directions: half of what they add to both.",
    )
    return [
        Figure(
            "fig-8", "Introduced delay over the length of the path", "Fig. 8",
            BETTER if high < paper.DELAY_PER_HOP_US else WORSE if low > paper.DELAY_PER_HOP_US else AS_PAPER,
            f"radar adds {radar:.2f} us a hop and direction ({low:.2f} to {high:.2f}; paper: about {paper.DELAY_PER_HOP_US:.0f} us on another machine), "
            f"tcpdump {per_hop[schemes.TCPDUMP][0]:.2f}, in-band telemetry {per_hop[schemes.IN_BAND][0]:.2f}, programs that do nothing {per_hop[schemes.NOP][0]:.2f}.",
            draw, (6.4, 3.8), [beside, whole],
        )
    ]


def slope(series):
    """us a router, with its 95 % interval over the rounds."""
    slopes = []
    for _, of_round in series.groupby(level="round"):
        n = of_round.index.get_level_values("routers")
        slopes.append(numpy.polyfit(n, of_round.values, 1)[0])
    return mean_interval(slopes)
