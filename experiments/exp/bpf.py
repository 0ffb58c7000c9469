# SPDX-License-Identifier: Apache-2.0
"""What programs take of the CPU, by the kernel's own statistics."""

import ctypes
import json
import os
from contextlib import contextmanager

from .lab import run

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


def programs():
    """All programs that are loaded: {id: what bpftool says of it}. Runs and ns are there if there were any."""
    return {p["id"]: p for p in json.loads(run("bpftool", "-j", "prog", "show"))}
