# SPDX-License-Identifier: Apache-2.0
"""A forwarder in user space between h1 and h2, with delay and loss, that counts for itself."""

import json
import signal
import subprocess
from pathlib import Path

from exp.lab import RADAR, CommandError, Lab, stop

LAB = Path(__file__).parent / "lab"
SOURCE, SINK = "10.0.0.1", "10.0.0.2"


def network():
    """h1 - f - h2, in which nothing forwards yet."""
    return Lab(LAB, name="truth")


class Forwarder:
    """`radar lab forward` in f from `with` to its end."""

    def __init__(self, lab, *flags):
        self.lab, self.flags = lab, flags

    def __enter__(self):
        command = [RADAR, "lab", "forward", "eth0", "eth1", *self.flags, "-o", "json"]
        self.process = self.lab.start("f", *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = self.process.stderr.readline()
        if "forwarding between" not in said:
            stop(self.process)
            raise CommandError(f"radar lab forward: {said.strip()}")
        return self

    def __exit__(self, *_):
        stop(self.process, signal.SIGINT)
        self.lab.processes.remove(self.process)

    def counts(self):
        """What it counts from h1 to h2 (in, out, lost, full, ...)."""
        self.process.send_signal(signal.SIGUSR1)
        directions = [json.loads(self.process.stdout.readline()) for _ in range(2)]
        return next(d for d in directions if d["from"] == "eth0")
