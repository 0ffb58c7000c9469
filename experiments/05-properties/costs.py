# SPDX-License-Identifier: Apache-2.0
"""What radar's programs take of the CPU, by the kernel's own statistics."""

import ctypes
import json
import os
from contextlib import contextmanager
from pathlib import Path

from exp.lab import run

BPF_SYSCALL, BPF_ENABLE_STATS = 321, 32  # of x86-64


@contextmanager
def statistics():
    """The kernel counts runs of programs and their time. Ends with this process at the latest.

    Other than the sysctl kernel.bpf_stats_enabled this cannot be left behind, and does not
    disturb who else counts.
    """
    kind = ctypes.create_string_buffer(128)  # union bpf_attr; 0 is BPF_STATS_RUN_TIME
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(BPF_SYSCALL, BPF_ENABLE_STATS, kind, len(kind))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "enable statistics of BPF programs")
    try:
        yield
    finally:
        os.close(descriptor)


def hooks(radar):
    """[(machine, port, direction, runs, ns)] of the programs on a domain's ports.

    Empty where they are not TCX links, which are pinned by the port's number.
    """
    programs = {p["id"]: p for p in json.loads(run("bpftool", "-j", "prog", "show"))}
    found = []
    for node in radar.status()["nodes"]:
        for port in node["ports"]:
            for direction in ("in", "out"):
                for pin in Path("/sys/fs/bpf/radar").glob(f"v*/{radar.domain}/link-{port['id']}-{direction}"):
                    program = programs[json.loads(run("bpftool", "-j", "link", "show", "pinned", pin))["prog_id"]]
                    found.append((node["name"], port["name"], direction, program.get("run_cnt", 0), program.get("run_time_ns", 0)))
    return found


def per_run(before, after):
    """The hooks that ran between two readings, with runs and ns per run."""
    rows = []
    for (machine, port, direction, runs, ns), (*_, runs_after, ns_after) in zip(before, after):
        if runs_after > runs:
            rows.append({"machine": machine, "port": port, "direction": direction, "runs": runs_after - runs, "ns": (ns_after - ns) / (runs_after - runs)})
    return rows
