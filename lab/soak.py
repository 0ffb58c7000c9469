#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The table of faults in docs/reliability.md: which tests it names, and what came of them.

    lab/soak.py names e2e      # regular expression of its tests in lab/test/e2e
    lab/soak.py names units    # and of those elsewhere, but for lab/test/kernels
    lab/soak.py write E2E UNITS <docs/reliability.md >NEW
    lab/soak.py tables E2E     # the reports of lab/test/e2e, as they were printed

The first three columns are written by hand, the last four by "write": from E2E, what lab/test/e2e
leaves under RADAR_E2E_JSON, UNITS, the output of "go test -json", and the table of
docs/kernels.md. A test of the table that did not pass is an error.
"""

import fnmatch
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
HEAD = "| fault | tests | what holds |"


def tests_of(folder, *without):
    """Names of tests below a folder, by the folder each lies in."""
    found = {}
    for path in sorted((ROOT / folder).rglob("*_test.go")):
        at = str(path.parent.relative_to(ROOT))
        if at not in without:
            for name in re.findall(r"^func (Test\w+)\(", path.read_text(), re.M):
                found.setdefault(name, set()).add(at)
    return found


def rows(text):
    """Rows of the table of faults, as lists of cells, with their line numbers."""
    lines = text.split("\n")
    try:
        first = next(i for i, line in enumerate(lines) if line.startswith(HEAD)) + 2
    except StopIteration:
        sys.exit(f"soak.py: no table that begins with {HEAD}")
    while lines[first].startswith("|"):
        yield first, [c.strip() for c in lines[first].strip("|").split("|")]
        first += 1


def patterns(row):
    return re.findall(r"`(Test[\w*]+)`", row[1])


def named(pattern, tests):
    return [name for name in tests if fnmatch.fnmatchcase(name, pattern)]


def split(text):
    """What the table names: tests of lab/test/e2e, of kernels, others."""
    e2e, kernels = tests_of("lab/test/e2e"), tests_of("lab/test/kernels")
    units = {}
    for folder in ("bpf/test", "pkg"):
        for name, at in tests_of(folder, "lab/test/kernels").items():
            units.setdefault(name, set()).update(at)
    chosen = {"e2e": set(), "kernels": set(), "units": set()}
    for _, row in rows(text):
        for pattern in patterns(row):
            found = False
            for kind, tests in (("e2e", e2e), ("kernels", kernels), ("units", units)):
                names = named(pattern, tests)
                chosen[kind].update(names)
                found = found or names
            if not found:
                sys.exit(f"soak.py: {row[0]}: no test {pattern}")
    return chosen


def passed_units(path):
    """How often each test passed, and the day of the run; whatever failed is an error."""
    times, failed = {}, []
    for line in open(path):
        event = json.loads(line)
        name = event.get("Test", "")
        if not name or "/" in name or event["Action"] not in ("pass", "skip", "fail"):
            continue
        if event["Action"] == "pass":
            times.setdefault(name, [0, ""])
            times[name] = [times[name][0] + 1, event["Time"][:10]]
        else:
            failed.append(f"{name}: {event['Action']}")
    if failed:
        sys.exit("soak.py: " + ", ".join(failed))
    return times


def passed_e2e(path):
    """How often each fault was tried, what was compared, wrong, and the day, by test."""
    run = json.load(open(path))
    found = {}
    for report in run["rounds"]:
        f = found.setdefault(report["test"].split("/")[0], [0, 0, 0, run["time"][:10]])
        f[0] += max(1, report.get("times", 0))
        for check in report["rows"]:
            f[1] += check["compared"]
            f[2] += check["wrong"]
    return found


def passed_kernels():
    """How many kernels passed the tests of lab/test/kernels, and when the first of them did, by
    docs/kernels.md."""
    head, days = None, []
    for line in (ROOT / "docs" / "kernels.md").read_text().split("\n"):
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if cells[0] == "kernel":
            head = cells
        elif head and len(cells) == len(head):
            row = dict(zip(head, cells))
            if row["result"] == "ok" and row["tests"].isdigit():
                days.append(row["date"])
        else:
            head = None
    return [len(days), min(days)] if days else None


def write(text, e2e_path, units_path):
    chosen = split(text)
    units, kernels = passed_units(units_path), passed_kernels()
    # How often, what was compared, wrong, and the day; nothing is compared but by lab/test/e2e.
    results = {
        "e2e": passed_e2e(e2e_path),
        "units": {name: (n, None, 0, day) for name, (n, day) in units.items()},
        "kernels": {name: (kernels[0], None, 0, kernels[1]) for name in chosen["kernels"] if kernels},
    }
    lines = text.split("\n")
    for at, row in rows(text):
        found = []
        for kind, passed in results.items():
            for name in (n for p in patterns(row) for n in named(p, chosen[kind])):
                if name not in passed:
                    sys.exit(f"soak.py: {row[0]}: nothing is known of {name}, one of {kind}")
                found.append(passed[name])
        counts, compared, wrong, days = zip(*found)
        compared = [c for c in compared if c is not None]
        figures = [f"{sum(compared):,}", f"{sum(wrong):,}"] if compared else ["-", "-"]
        lines[at] = "| " + " | ".join(row[:3] + [f"{sum(counts):,}"] + figures + [min(days)]) + " |"
    return "\n".join(lines)


def tables(e2e_path):
    """The reports of lab/test/e2e, as they were printed."""
    return "\n".join(report["table"] for report in json.load(open(e2e_path))["rounds"])


def main(args):
    if args[:1] == ["names"] and args[1:] in (["e2e"], ["units"]):
        print("^(" + "|".join(sorted(split(PAGE.read_text())[args[1]])) + ")$")
    elif args[:1] == ["write"] and len(args) == 3:
        sys.stdout.write(write(sys.stdin.read(), *args[1:]))
    elif args[:1] == ["tables"] and len(args) == 2:
        sys.stdout.write(tables(args[1]))
    else:
        sys.exit("usage: soak.py names e2e|units, soak.py write E2E UNITS <PAGE, soak.py tables E2E")


if __name__ == "__main__":
    main(sys.argv[1:])
