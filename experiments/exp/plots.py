# SPDX-License-Identifier: Apache-2.0
"""How plots look: one colour for each scheme, wherever it appears."""

from . import schemes

COLOURS = {
    schemes.NONE: "#666666",
    schemes.NOP: "#a6a6a6",
    schemes.RADAR: "#0072b2",
    schemes.TCPDUMP: "#d55e00",
    schemes.IN_BAND: "#009e73",
}


def intervals(axes, xs, of_scheme):
    """A line with error bars for each scheme, of {scheme: [(mean, low, high) for each x]}."""
    for scheme, rows in of_scheme.items():
        means = [mean for mean, _, _ in rows]
        errors = [[mean - low for mean, low, _ in rows], [high - mean for mean, _, high in rows]]
        axes.errorbar(xs, means, yerr=errors, marker="o", capsize=2, color=COLOURS[scheme], label=scheme)


def grid(axes, title, x, y):
    """Title, labels and a light grid."""
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(True, linewidth=0.4, alpha=0.6)
