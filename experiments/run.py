#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs experiments one after the other and writes one report; or records their results.

    run.py [--full] [--seed N] [NAME...]   measures, writes bin/experiments/report.html
    run.py --report                        writes the report of what has been measured
    run.py --record                        puts it into the folders and docs/experiments.md
    run.py --check                         whether these say what the recorded results do
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from exp import report
from exp.lab import ROOT

OUT = ROOT / "bin" / "experiments"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="an experiment's folder, or its beginning; default: all")
    parser.add_argument("--full", action="store_true", help="the long form")
    parser.add_argument("--seed", default="1", help="of the random numbers")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--record", action="store_true", help="measure nothing, keep the results that are there")
    parser.add_argument("--check", action="store_true", help="measure nothing, compare the pages with the recorded results")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    chosen = [n for n in report.names() if not arguments.names or any(n.startswith(a) for a in arguments.names)]
    if not chosen and not arguments.record:
        sys.exit(f"no experiment {' '.join(arguments.names)}: there are {', '.join(report.names())}")
    if arguments.record:
        record(chosen)
        return 0
    failed = [] if arguments.report else measure(chosen, arguments)
    OUT.mkdir(parents=True, exist_ok=True)
    results = [(n, *report.figures(n, OUT / f"{n}.json")) for n in report.names()]
    page = OUT / "report.html"
    page.write_text(report.as_html(results), encoding="utf-8")
    for _, _, figures in results:
        for f in figures:
            print(f"{f.paper:9} {f.title}\n{'':9} {f.verdict}: {f.finding}")
    print(f"report: {page.relative_to(ROOT)}")
    for name in failed:
        print(f"FAILED: {name}", file=sys.stderr)
    return 1 if failed else 0


def measure(names, arguments):
    """Runs them; returns the names of those that failed. The others go on."""
    failed = []
    for name in names:
        out = OUT / f"{name}.json"
        out.unlink(missing_ok=True)  # what fails shall not show an old result
        print(f"{name}: {report.title(name)}", file=sys.stderr, flush=True)
        began = time.monotonic()
        command = [sys.executable, report.EXPERIMENTS / name / "run.py", "--seed", arguments.seed, "--out", out]
        done = subprocess.run(command + (["--full"] if arguments.full else []), env=os.environ | {"PYTHONPATH": str(report.EXPERIMENTS)}, check=False)
        print(f"  {time.monotonic() - began:.0f} s", file=sys.stderr)
        if done.returncode != 0:
            failed.append(name)
    return failed


def record(names):
    """Puts results, plots and tables into the folders, and the summary into the docs."""
    for name in names:
        new = OUT / f"{name}.json"
        if not new.exists():
            print(f"{name}: not measured, its record stays", file=sys.stderr)
            continue
        folder = report.EXPERIMENTS / name / "results"
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.png"):
            old.unlink()
        (folder / "result.json").write_bytes(new.read_bytes())
        for f in report.figures(name, new)[1]:
            if f.draw:
                (folder / f"{f.id}.png").write_bytes(report.plot(f, "png"))
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def check():
    """Whether the pages say what the recorded results do; names those that do not."""
    wrong = [p for p, text in pages().items() if not p.exists() or p.read_text(encoding="utf-8") != text]
    for path in wrong:
        print(f"{path.relative_to(ROOT)} is not what its data say; run: make experiments-record ONLY=none", file=sys.stderr)
    return 1 if wrong else 0


def pages():
    """What the recorded results say: text by path."""
    out, recorded = {}, []
    for name in report.names():
        kept = report.EXPERIMENTS / name / "results" / "result.json"
        result, figures = report.figures(name, kept)
        recorded.append((name, result, figures))
        if result:
            out[kept.with_name("README.md")] = report.as_markdown(name, result, figures)
            for f in figures:
                if f.draw:
                    report.plot(f, "svg")  # that it can be drawn
    summary = ROOT / "docs" / "experiments.md"
    out[summary] = with_section(summary, "figures", report.summary(recorded))
    return out


def with_section(page, section, text):
    """A page's text with that text in a section of it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(page, folder)
        subprocess.run([ROOT / "lab" / "section.sh", copy, section], input=text, encoding="utf-8", check=True)
        return Path(copy).read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
