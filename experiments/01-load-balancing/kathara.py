# SPDX-License-Identifier: Apache-2.0
"""A lab as Kathará's containers, prepared by lab/kathara/setup.sh, and an engine for them."""

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from script import run_script

from exp.lab import RADAR, ROOT, CommandError, Lab, run, stop

SETUP = ROOT / "lab" / "kathara" / "setup.sh"
KATHARA = ROOT / "lab" / "kathara" / "kathara.sh"
PYTHON = ROOT / ".cache" / "kathara" / "venv" / "bin" / "python"

# Seconds that things may take.
SETUP_TIME = 600  # with nothing cached
LSTART_TIME = 120
STARTUP_TIME = 60  # of the machines' scripts
ENGINE_TIME = 40

# What setup.sh and we call, and Debian's package of it.
TOOLS = {
    "busybox": "busybox-static",
    "debootstrap": "debootstrap",
    "docker": "docker.io",
    "dockerd": "docker.io",
    "go": "golang",
    "iptables": "iptables",
}


class Engine:
    """A Docker engine with Kathará's image and plugin, from `with` to its end.

    It is the one that answers, or one of our own. Ours has a network namespace, so that
    its bridges and firewall rules are none of this machine's, and go with it. What setup.sh
    keeps in .cache stays, as after make kathara.
    """

    def __enter__(self):
        missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
        if missing:
            raise CommandError(f"needs packages: apt-get install {' '.join(missing)}")
        self.within = []  # what to put in front of a command that shall run where the bridges are
        with ExitStack() as undo:
            if not answers():
                self.start(undo)
            run_script(SETUP, "up", timeout=SETUP_TIME, env={**os.environ, "RADAR_BIN": RADAR})
            self.open_firewall(undo)
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def start(self, undo):
        """Starts an engine; undo will take away all that belongs to it."""
        folder = Path(tempfile.mkdtemp(prefix="experiment-docker-"))
        undo.callback(shutil.rmtree, folder)
        undo.callback(unmount, folder)
        netns = f"exp-docker-{os.getpid()}"
        run("ip", "netns", "add", netns)
        undo.callback(run, "ip", "netns", "delete", netns)
        self.within = ["nsenter", f"--net=/run/netns/{netns}"]
        run(*self.within, "ip", "link", "set", "lo", "up")
        # It ends with this process, even if that is killed; and not by the terminal's
        # Ctrl-C, because Kathará needs it to take the lab down.
        command = ["setpriv", "--pdeathsig", "TERM", *self.within, "dockerd", "--host", f"unix://{folder}/sock"]
        command += ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"]
        with (folder / "log").open("w") as log:
            daemon = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        undo.callback(stop, daemon, patience=30)
        undo.callback(os.environ.pop, "DOCKER_HOST", None)
        os.environ["DOCKER_HOST"] = f"unix://{folder}/sock"
        end = time.monotonic() + ENGINE_TIME
        while not answers():
            if daemon.poll() is not None or time.monotonic() > end:
                raise CommandError(f"dockerd does not answer: {(folder / 'log').read_text()[-1000:]}")
            time.sleep(0.1)

    def open_firewall(self, undo):
        """Lets Kathará's frames cross its bridges: the engine drops what is forwarded."""
        rule = ["DOCKER-USER", "-i", "kt-+", "-o", "kt-+", "-m", "comment", "--comment", f"exp-{os.getpid()}", "-j", "ACCEPT"]
        run(*self.within, "iptables", "-w", "-I", *rule)
        undo.callback(run, *self.within, "iptables", "-w", "-D", *rule)


def answers():
    """Whether there is an engine where DOCKER_HOST says, or in the usual place."""
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def unmount(folder):
    """Takes off what an engine has left mounted below its folder."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        point = line.split()[1]
        if point.startswith(f"{folder}/"):
            run("umount", "--lazy", point)


class KatharaLab(Lab):
    """A lab folder that is up under Kathará from `with` to its end."""

    def __init__(self, scenario, **parameters):
        super().__init__(scenario, **parameters)
        self.folder = None  # as exported: with the parameters filled in, and this lab's name
        self.pids = {}  # a process of each machine

    def __enter__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="experiment-lab-"))
        try:
            settings = [a for k, v in {**self.parameters, "NAME": self.name}.items() for a in ("--set", f"{k}={v}")]
            run(RADAR, "lab", "export", self.scenario, self.folder, *settings)
            run_script(KATHARA, "lstart", "-d", self.folder, timeout=LSTART_TIME)
            self.find_machines()
            self.await_scripts()
        except BaseException:
            self.close()
            raise
        return self

    def close(self):
        for process in self.processes:
            stop(process)
        try:
            run(KATHARA, "lclean", "-d", self.folder, timeout=LSTART_TIME)
        finally:
            shutil.rmtree(self.folder)

    def find_machines(self):
        """Asks the engine for the containers that Kathará has marked as this lab's."""
        code = "import sys; from Kathara.utils import generate_urlsafe_hash; print(generate_urlsafe_hash(sys.argv[1]))"
        mark = run(PYTHON, "-c", code, self.name).strip()
        listed = run("docker", "ps", "--quiet", "--filter", "label=app=kathara", "--filter", f"label=lab_hash={mark}").split()
        if not listed:
            raise CommandError("no machine of the lab runs under Kathará")
        form = '{{index .Config.Labels "name"}} {{.State.Pid}}'
        for line in run("docker", "inspect", "--format", form, *listed).splitlines():
            name, pid = line.split()
            self.pids[name] = int(pid)
        self.machines = sorted(self.pids)

    def await_scripts(self):
        """Waits for the file that Kathará leaves behind each startup script: lstart does not."""
        end = time.monotonic() + STARTUP_TIME
        for name, pid in self.pids.items():
            while not Path(f"/proc/{pid}/root/tmp/EOS").exists():
                if time.monotonic() > end:
                    raise CommandError(f"the startup script of {name} does not end")
                time.sleep(0.02)

    def netns(self, machine):
        raise NotImplementedError(f"{machine} of Kathará has a namespace without a name")

    def within(self, machine):
        return ["nsenter", f"--net=/proc/{self.pids[machine]}/ns/net"]
