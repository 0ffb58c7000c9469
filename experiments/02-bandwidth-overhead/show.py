# SPDX-License-Identifier: Apache-2.0
"""Fig. 7, from what run.py has measured."""

import pandas

from exp import paper, schemes
from exp.figure import AS_PAPER, WORSE, Figure, Table
from exp.plots import COLOURS, grid


def show(result):
    data = result["data"]
    rows = pandas.DataFrame(data["rows"])
    sizes = list(data["sizes"])
    goodput = rows.pivot_table(index=["size", "routers"], columns="scheme", values="goodput_mbit", aggfunc="median")
    ratio = goodput.div(goodput[schemes.NONE], axis=0)
    longest = int(rows.routers.max())
    in_band = 100 * (1 - ratio.loc[("64 B", longest), schemes.IN_BAND])
    worst = float(ratio[schemes.RADAR].min())
    # The bytes alone say what in-band telemetry must cost on the last link.
    expected = 100 * (1 - data["sizes"]["64 B"]["frame"] / (data["sizes"]["64 B"]["frame"] + 4 + 4 * longest))
    flat = worst >= 0.97

    def draw(figure):
        for i, size in enumerate(sizes):
            axes = figure.add_subplot(1, len(sizes), i + 1)
            for name in schemes_of(goodput):
                line = goodput.loc[size][name]
                axes.plot(line.index, line.values, marker="o", color=COLOURS[name], label=name)
            grid(axes, f"{size}, links of {data['sizes'][size]['link_mbit']} Mbit/s", "routers", "goodput, Mbit/s")
            axes.set_ylim(0, 1.1 * goodput.loc[size].max().max())
        figure.axes[0].legend()

    table = Table(
        ["packets", "routers", *[f"{n}, Mbit/s" for n in schemes_of(goodput)], "radar of none", "in-band of none"],
        [
            [size, n, *[f"{goodput.loc[(size, n), s]:.2f}" for s in schemes_of(goodput)],
             f"{ratio.loc[(size, n), schemes.RADAR]:.3f}", f"{ratio.loc[(size, n), schemes.IN_BAND]:.3f}"]
            for size in sizes
            for n in sorted(rows.routers.unique())
        ],
        f"Medians of {data['rounds']} rounds of {data['seconds']} s; UDP at {data['above']} times the links' rate.",
    )
    beside = Table(
        ["", "paper", "here"],
        [
            ["vNetRadar, over N", "flat at the maximum", f"{worst:.3f} of none's at the least"],
            ["tcpdump, over N", "flat at the maximum", f"{float(ratio[schemes.TCPDUMP].min()):.3f} of none's at the least"],
            [f"in-band, 64 B, N = {longest}", f"-{paper.IN_BAND_LOSS_PERCENT} % (N = 10)", f"-{in_band:.1f} % (by its bytes: -{expected:.1f} %)"],
            ["MTUs changed", "for PPTMon by hand, for vNetRadar none", "for in-band by hand, for radar none"],
        ],
    )
    return [
        Figure(
            "fig-7", "Bandwidth overhead: goodput over the length of the path", "Fig. 7",
            AS_PAPER if flat else WORSE,
            f"With radar goodput is {worst:.3f} of none's at the least, at any length and size; in-band telemetry takes {in_band:.1f} % of it "
            f"at {longest} routers and 64 bytes (paper: {paper.IN_BAND_LOSS_PERCENT} %).",
            draw, (8.4, 3.6), [beside, table],
        )
    ]


def schemes_of(table):
    """The schemes that were measured, in the order of schemes.MEANING."""
    return [s for s in schemes.MEANING if s in table.columns]
