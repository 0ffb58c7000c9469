# SPDX-License-Identifier: Apache-2.0
"""radar as its users run it: attach, ask, detach."""

import atexit
import json
import os
import subprocess

from .lab import RADAR, CommandError, run


class Radar:
    """radar on a lab from `with` to its end, in a domain of this process's own.

    nodes are what `radar attach` takes; flags go to it, too.
    """

    number = 0

    def __init__(self, *nodes, flags=()):
        Radar.number += 1
        self.domain = f"exp-{os.getpid()}-{Radar.number}"
        self.nodes, self.flags = list(nodes), list(flags)

    @classmethod
    def on(cls, lab, flags=()):
        """radar on all machines of a Lab."""
        return cls("--lab", lab.name, flags=flags)

    def __enter__(self):
        try:
            run(RADAR, "attach", "-d", "--domain", self.domain, *self.flags, *self.nodes)
        except BaseException:
            run(RADAR, "detach", "--no-drain", "--domain", self.domain, check=False)
            raise
        atexit.register(self.close)
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        atexit.unregister(self.close)
        run(RADAR, "detach", "--no-drain", "--domain", self.domain)

    def ask(self, *question):
        """The rows of a question, or the packets, as dicts (docs/data-model.md)."""
        return list(self.each(*question))

    def each(self, *question):
        """The same one by one, for answers that are long."""
        command = [RADAR, *map(str, question), "-o", "json", "--domain", self.domain]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
            for line in asked.stdout:
                yield json.loads(line)
            said = asked.stderr.read()
        if asked.returncode != 0:
            raise CommandError(f"{' '.join(command)}: exit code {asked.returncode}: {said.strip()}")

    def packets(self, *filters):
        """All packets that the ring remembers."""
        return self.each("packets", "--last", "0", *filters)

    def status(self):
        return json.loads(run(RADAR, "status", "-o", "json", "--domain", self.domain))
