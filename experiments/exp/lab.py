# SPDX-License-Identifier: Apache-2.0
"""Networks to experiment on: labs of `radar lab`, in network namespaces of their own."""

import atexit
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RADAR = os.environ.get("RADAR_BIN", str(ROOT / "bin" / "radar"))

# What SIGTERM ends shall still be taken down.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


class CommandError(RuntimeError):
    """A command failed; the text has it and what it said."""


def run(*command, timeout=300, check=True, env=None):
    """Runs a command and returns what it printed. Raises CommandError."""
    command = [str(c) for c in command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env)
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise CommandError(f"{' '.join(command)}: exit code {done.returncode}: {said}")
    return done.stdout


class Lab:
    """A lab that is up from `with` to its end: a built-in scenario or a folder.

    Its name holds this process's number, so that labs of several runs do not meet.
    """

    def __init__(self, scenario, name=None, **parameters):
        self.scenario = str(scenario)
        self.name = f"{name or Path(self.scenario).name}-{os.getpid()}"
        self.parameters = parameters
        self.processes = []

    def __enter__(self):
        settings = [a for k, v in self.parameters.items() for a in ("--set", f"{k}={v}")]
        run(RADAR, "lab", "up", self.scenario, "--name", self.name, *settings)
        atexit.register(self.close)
        listed = json.loads(run(RADAR, "lab", "list", self.name, "-o", "json"))
        self.machines = [m["name"] for m in listed["machines"]]
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        atexit.unregister(self.close)
        for process in self.processes:
            stop(process)
        run(RADAR, "lab", "down", self.name)

    def netns(self, machine):
        """The name of a machine's namespace."""
        return f"{self.name}-{machine}"

    def within(self, machine):
        """What to put in front of a command that shall run in a machine."""
        return ["nsenter", f"--net=/run/netns/{self.netns(machine)}"]

    def run(self, machine, *command, **options):
        """Runs a command in a machine and returns what it printed."""
        return run(*self.within(machine), *command, **options)

    def start(self, machine, *command, **options):
        """Starts a process in a machine; it ends with the lab at the latest."""
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.DEVNULL)
        process = subprocess.Popen([*self.within(machine), *map(str, command)], **options)
        self.processes.append(process)
        return process


def stop(process, how=signal.SIGTERM, patience=10):
    """Ends a process that was started here, and waits for that."""
    if process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def chain(routers, name="chain"):
    """h1 - r1 - ... - rN - h2."""
    return Lab("chain", name=f"{name}{routers}", N=routers)


def chain_address(routers):
    """h2's address in a chain."""
    return f"10.0.{routers + 1}.2"
