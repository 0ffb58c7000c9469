# SPDX-License-Identifier: Apache-2.0
"""An experiment's run script: measures, and writes what it found as JSON."""

import argparse
import datetime
import json
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

from .lab import CommandError
from .machine import Noise, describe


@dataclass
class Options:
    """What a measurement is asked for."""

    full: bool  # the long form: as many rounds as the paper
    seed: int  # of everything that is drawn at random
    noise: Noise = field(default_factory=Noise)

    def pick(self, short, full):
        """The one that fits the form."""
        return full if self.full else short

    def round(self, text):
        """A round begins: says so, and takes a sample of the machine's noise."""
        self.noise.sample()
        say(text)


def say(text):
    """Progress, on standard error."""
    print(f"  {text}", file=sys.stderr, flush=True)


def main(name, measure):
    """Runs measure(options), which returns what can be written as JSON."""
    parser = argparse.ArgumentParser(description=f"Experiment {name}: measures, and writes the result as JSON.")
    parser.add_argument("--full", action="store_true", help="the long form")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default 1)")
    parser.add_argument("--out", type=Path, default=Path("bin/experiments") / f"{name}.json", help="where to write (default %(default)s)")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit(f"{name}: needs root: it makes network namespaces")
    options = Options(arguments.full, arguments.seed)
    random.seed(options.seed)
    try:
        data = measure(options)
    except CommandError as error:
        sys.exit(f"{name}: {error}")
    result = {
        "experiment": name,
        "form": options.pick("short", "full"),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "seed": options.seed,
        "machine": describe(),
        "noise": options.noise.summary(),
        "data": data,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    written = arguments.out.with_suffix(".part")
    written.write_text(json.dumps(result, indent=1, default=float) + "\n", encoding="utf-8")
    written.rename(arguments.out)
