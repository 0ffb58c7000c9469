# SPDX-License-Identifier: Apache-2.0
"""What `make bench` measures (cmd/bench): radar beside its peers, in interleaved rounds on chains of its own."""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from .lab import RADAR, ROOT, CommandError

BENCH = os.environ.get("BENCH_BIN", str(ROOT / "bin" / "bench"))


def bench(options, name, rounds):
    """Runs a benchmark (short form, full form: so many -rounds); its tables as cmd/bench/result writes them."""
    options.round(f"make bench BENCH={name}")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        command = [BENCH, "-radar", RADAR, "-run", f"^{name}$", "-rounds", str(options.pick(*rounds)), "-json", str(out)]
        if options.full:
            command.append("-full")
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise CommandError(f"{' '.join(command)}: exit code {done.returncode}")
        result = json.loads(out.read_text(encoding="utf-8"))
    options.round("done")
    return result["benchmarks"][0]["tables"]


def each(table):
    """(row, column, number of the round, figure) of all figures of a table."""
    for row in table["rows"]:
        for column, cell in zip(table["columns"][1:], row["cells"]):
            for number, value in enumerate(cell.get("figure", {}).get("rounds", ())):
                yield row["name"], column, number, value
