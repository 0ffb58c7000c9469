# SPDX-License-Identifier: Apache-2.0
"""tcpdump in the machines of a lab."""

import os
import re
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager

from .lab import CommandError, stop

PATIENCE = 10.0  # seconds for tcpdump to begin


class Tcpdump:
    """One that runs. It has begun to listen when await_begin() returns."""

    def __init__(self, lab, machine, *arguments):
        self.lab, self.machine = lab, machine
        self.log = tempfile.TemporaryFile()
        # -Z: else it becomes a user who cannot write where we let it.
        self.process = lab.start(machine, "tcpdump", "-n", "-Z", "root", *arguments, stderr=self.log)

    def said(self):
        # Not read(): it would move the place where tcpdump writes.
        return os.pread(self.log.fileno(), 1 << 20, 0).decode(errors="replace")

    def await_begin(self):
        end = time.monotonic() + PATIENCE
        while "listening on" not in self.said():
            if self.process.poll() is not None or time.monotonic() > end:
                raise CommandError(f"tcpdump in {self.machine} does not begin: {self.said().strip()}")
            time.sleep(0.02)

    def end(self):
        """Ends it. Returns how many packets it has "captured", and how many were "dropped by kernel"."""
        stop(self.process, signal.SIGINT, patience=30)
        counted = {what: int(n) for n, what in re.findall(r"(\d+) packets? (captured|dropped by kernel)", self.said())}
        if len(counted) != 2:
            raise CommandError(f"tcpdump in {self.machine} did not end well: {self.said().strip()}")
        return counted

    def close(self):
        stop(self.process)
        self.lab.processes.remove(self.process)
        self.log.close()


@contextmanager
def tcpdumps(lab, commands):
    """Several, of {key: (machine, *arguments)}. Yields {key: Tcpdump} when all listen."""
    with ExitStack() as undo:
        running = {}
        for key, command in commands.items():
            running[key] = Tcpdump(lab, *command)
            undo.callback(running[key].close)
        for one in running.values():
            one.await_begin()
        yield running
