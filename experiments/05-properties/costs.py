# SPDX-License-Identifier: Apache-2.0
"""What radar's programs take of the CPU, hook by hook."""

import json
from pathlib import Path

from exp.bpf import programs
from exp.lab import run


def hooks(radar):
    """[(machine, port, direction, runs, ns)] of the programs on a domain's ports.

    Empty where they are not TCX links, which are pinned by the port's number.
    """
    loaded = programs()
    found = []
    for node in radar.status()["nodes"]:
        for port in node["ports"]:
            for direction in ("in", "out"):
                for pin in Path("/sys/fs/bpf/radar").glob(f"vnet/{radar.domain}/link-{port['id']}-{direction}"):
                    program = loaded[json.loads(run("bpftool", "-j", "link", "show", "pinned", pin))["prog_id"]]
                    found.append((node["name"], port["name"], direction, program.get("run_cnt", 0), program.get("run_time_ns", 0)))
    return found


def per_run(before, after):
    """The hooks that ran between two readings, with runs and ns per run."""
    rows = []
    for (machine, port, direction, runs, ns), (*_, runs_after, ns_after) in zip(before, after):
        if runs_after > runs:
            rows.append({"machine": machine, "port": port, "direction": direction, "runs": runs_after - runs, "ns": (ns_after - ns) / (runs_after - runs)})
    return rows
