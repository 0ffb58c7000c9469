# SPDX-License-Identifier: Apache-2.0
"""Long scripts, which start programs of their own."""

import os
import signal
import subprocess

from exp.lab import CommandError

PATIENCE = 20  # seconds for all of it to end


def run_script(*command, timeout, env=None):
    """Runs a script. If this process is told to end meanwhile, so is all that the script has started."""
    command = [str(c) for c in command]
    script = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, start_new_session=True
    )
    try:
        said, _ = script.communicate(timeout=timeout)
    except BaseException:
        end(script)
        raise
    if script.returncode != 0:
        raise CommandError(f"{' '.join(command)}: exit code {script.returncode}: {said.strip()[-2000:]}")


def end(script):
    """Ends the script's session: it is the first process of it."""
    os.killpg(script.pid, signal.SIGTERM)
    try:
        script.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(script.pid, signal.SIGKILL)
        script.communicate()
