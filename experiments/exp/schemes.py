# SPDX-License-Identifier: Apache-2.0
"""What radar is measured beside on a chain: the neighbours of cmd/bench, by the names that it gives them."""

NONE, NOP, RADAR, TCPDUMP, IN_BAND = "none", "nop", "radar", "tcpdump", "in-band"

# What each stands for, for tables.
MEANING = {
    NONE: "nothing attached",
    NOP: "TCX programs that do nothing, on radar's hooks",
    RADAR: "radar attach, everything that is on by default",
    TCPDUMP: "tcpdump -i any in each node, thrown away",
    IN_BAND: "in-band telemetry as PPTMon's: 4 + 4k bytes after k nodes, MTUs raised by hand",
}
