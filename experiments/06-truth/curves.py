# SPDX-License-Identifier: Apache-2.0
"""What a packet costs the fuller the ring is, the more flows and the more ports there are: from cmd/bench."""

import json
import subprocess
import tempfile
from pathlib import Path

from exp.lab import RADAR, ROOT, CommandError, run, stop

CURVES = ("curve-slots", "curve-flows", "curve-ports")
SECONDS = 3600  # that all of them may take


def measure(options):
    options.round("cost against slots, flows, ports")
    with tempfile.TemporaryDirectory(prefix="curves-") as folder:
        bench, file = Path(folder) / "bench", Path(folder) / "curves.json"
        # Not `go run`: which does not pass on the signal that ends it.
        run("go", "-C", ROOT, "build", "-o", bench, "./cmd/bench", timeout=SECONDS)
        short = [] if options.full else ["-short"]
        command = [bench, "-radar", RADAR, "-json", file, "-run", f"^({'|'.join(CURVES)})$", *short]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, said = process.communicate(timeout=SECONDS)
        finally:
            stop(process)
        if process.returncode != 0:
            raise CommandError(f"bench: exit code {process.returncode}: {said.strip()[-2000:]}")
        measured = {b["name"]: b for b in json.loads(file.read_text())["benchmarks"]}
    found = {}
    for name in CURVES:
        if name not in measured or measured[name].get("error"):
            raise CommandError(f"bench {name}: {measured.get(name, {}).get('error', 'not measured')}")
        table = measured[name]["tables"][0]
        found[name] = {
            "what": table["columns"][0],
            "notes": table.get("notes", []),
            # The columns of cmd/bench/curves.go: the sum over all hooks, the ratio to the first row, ...
            "points": [{"at": row["name"], "ns": figure(row, 0), "ratio": figure(row, 1), "not_measured_percent": figure(row, 4)} for row in table["rows"]],
        }
    return found


def figure(row, column):
    """Median, least and greatest of a cell; None where noise left no number."""
    of = row["cells"][column].get("figure")
    return of and [of["median"], of["min"], of["max"]]
