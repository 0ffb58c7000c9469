# SPDX-License-Identifier: Apache-2.0
"""Which machine this is, and how noisy it was meanwhile."""

import os
import platform
import subprocess
import time

import numpy
import psutil

from .lab import ROOT


def describe():
    """What a result depends on: kernel, CPUs, memory, commit."""
    model = ""
    for line in open("/proc/cpuinfo", encoding="ascii", errors="replace"):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return {
        # Its number, without what a distribution or a host adds to that.
        "kernel": platform.release().split("-")[0],
        "cpus": os.cpu_count(),
        "cpu_model": model,
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "commit": commit.stdout.strip() or "unknown",
    }


class Noise:
    """How noisy the machine is, from start() to stop(): a fixed piece of work every second.

    On a quiet machine it always takes the same time. What others do, on this machine or on
    the one that it is a guest of, makes it longer. Experiments load the machine themselves:
    so it is measured in pauses that they make (sample()), and by what the kernel says was
    stolen.
    """

    def __init__(self):
        self.took_ms = []
        self.load = []
        self.stolen = psutil.cpu_times().steal
        self.began = time.monotonic()

    def sample(self):
        """One piece of work: some milliseconds."""
        begin = time.perf_counter()
        total = 0
        for i in range(200_000):
            total += i
        self.took_ms.append((time.perf_counter() - begin) * 1e3)
        self.load.append(os.getloadavg()[0])
        return total

    def summary(self):
        took = numpy.array(self.took_ms or [float("nan")])
        seconds = time.monotonic() - self.began
        return {
            "samples": len(self.took_ms),
            "work_ms_median": float(numpy.median(took)),
            "work_ms_p95": float(numpy.percentile(took, 95)),
            "spread": float(numpy.percentile(took, 95) / numpy.median(took)),
            "load_max": max(self.load, default=float("nan")),
            "stolen_percent": 100 * (psutil.cpu_times().steal - self.stolen) / seconds / os.cpu_count(),
            "seconds": seconds,
        }
