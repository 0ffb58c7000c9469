# SPDX-License-Identifier: Apache-2.0
"""Everything in a lab's machines that a tool could change, as text, and how two such states differ."""

from exp.lab import run

# Each is run in a machine. What moves by itself (neighbours, statistics) is not asked for.
QUESTIONS = {
    "links and MTUs": ["ip", "-d", "link"],
    "addresses": ["ip", "address"],
    "routes": ["ip", "route", "show", "table", "all"],
    "rules of routing": ["ip", "rule"],
    "queues": ["tc", "qdisc", "show"],
    "firewall": ["nft", "list", "ruleset"],
    "sysctls net.*": ["sysctl", "-a", "--ignore", "--pattern", r"^net\."],
}
OFFLOADS, PROCESSES = "offloads", "processes"


def settings(lab):
    """{(machine, what): lines}."""
    found = {}
    for machine in lab.machines:
        for what, command in QUESTIONS.items():
            found[machine, what] = lab.run(machine, *command).splitlines()
        ports = [line.split(": ")[1].split("@")[0] for line in found[machine, "links and MTUs"] if ": eth" in line]
        found[machine, OFFLOADS] = [f"{p} {line}" for p in ports for line in lab.run(machine, "ethtool", "-k", p).splitlines()]
        found[machine, PROCESSES] = run("ip", "netns", "pids", lab.netns(machine)).split()
    return found


def differences(before, after):
    """{what: number of lines that only one of two states has}, over all machines."""
    counts = dict.fromkeys((*QUESTIONS, OFFLOADS, PROCESSES), 0)
    for (machine, what), lines in before.items():
        counts[what] += len(set(lines) ^ set(after[machine, what]))
    return counts


def sizes(state):
    """{what: number of lines}, over all machines."""
    counts = {}
    for (_, what), lines in state.items():
        counts[what] = counts.get(what, 0) + len(lines)
    return counts
