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


def grid(axes, title, x, y):
    """Title, labels and a light grid."""
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(True, linewidth=0.4, alpha=0.6)
