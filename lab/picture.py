#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Draws docs/demo.svg, the README's picture, of the records of one run of make demo.

    lab/picture.py RECORDS >docs/demo.svg     # RECORDS: of "radar packets --last 0 -o json"

The numbers are counts and medians of all records. The dots are packets of a tenth of a second, some of them, SLOW times
slower than they were. Links and nodes are passed in microseconds, which nobody would see: there a dot takes a fixed time.
Waits in the queue are to scale.
"""
import collections
import json
import statistics
import sys

SLOW = 100  # times
WINDOW = 100_000_000  # ns of the run that are shown
EVERY = 5  # of the packets from h1 and h2, one in this many is a dot
LINK, NODE, FALL = 0.45, 0.12, 0.5  # seconds that a dot takes on a link, in a node, as it is dropped
ROUND = WINDOW * SLOW / 1e9  # seconds until the picture begins anew

CENTRE = {"h1": (60, 110), "r1": (250, 110), "r2": (440, 110), "r3": (670, 110), "h2": (820, 110), "h3": (250, 220)}
QUEUE = (488, 545)  # its tail and its head
LOST = {("r2", "queue"): (488, 110, 488, 160), ("r1", "node"): (250, 140, 226, 160)}


def dot_path(record):
    """The places of a packet's dot, as (seconds, x, y), and when it is dropped, if it is."""
    lane = 3 if record["hops"][0]["node"] == "h2" else -3
    at, path = 0.0, []

    def go(seconds, x, y):
        nonlocal at
        at += seconds
        path.append((at, x, y))

    for i, hop in enumerate(record["hops"]):
        x, y = CENTRE[hop["node"]]
        vertical = hop["node"] == "h3"
        go(LINK if i else 0, x, y if vertical else y + lane)
        go(NODE, x, y if vertical else y + lane)
        if "queue_ns" in hop and hop["node"] == "r2" and lane < 0:
            go(0.1, QUEUE[0], y + lane)
            go(hop["queue_ns"] * SLOW / 1e9, QUEUE[1], y + lane)
    loss = record.get("loss")
    if not loss or (loss["node"], loss["at"]) not in LOST:
        return path, None
    x, y, to_x, to_y = LOST[loss["node"], loss["at"]]
    if loss["at"] == "node":  # the node did not have it: it turns back at its edge
        at, _, _ = path.pop()
        path.pop()
        at -= LINK
    go(0.1 if loss["at"] == "queue" else LINK, x, y)
    dropped = at
    go(FALL, to_x, to_y)
    return path, dropped


def dot(record, begin):
    path, dropped = dot_path(record)
    end = path[-1][0]
    times = ";".join(f"{t / ROUND:.4f}".lstrip("0") or "0" for t, _, _ in path) + ";1"
    places = ";".join(f"{x},{y}" for _, x, y in path + [path[-1]])
    common = f'begin="{begin:.2f}s" dur="{ROUND:g}s" repeatCount="indefinite"'
    red = ""
    if dropped is not None:
        red = f'<animate attributeName="fill" {common} calcMode="discrete" values="#218bff;#cf222e" keyTimes="0;{dropped / ROUND:.4f}"/>'
    return (
        f'<circle r="3.5"><animateMotion {common} calcMode="linear" values="{places}" keyTimes="{times}"/>'
        f'<animate attributeName="opacity" {common} calcMode="discrete" values="1;0" keyTimes="0;{end / ROUND:.4f}"/>{red}</circle>'
    )


def text_of(ns):
    """A time with three digits, as radar prints it."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:#.3g}{unit}".replace(".u", "u").replace(".m", "m")
    return f"{ns:.0f}ns"


class Run:
    """Counts and times of all records."""

    def __init__(self, records):
        self.links, self.lost = collections.Counter(), collections.Counter()
        self.inside, self.on_link, self.queue = collections.defaultdict(list), collections.defaultdict(list), []
        for r in records:
            segments = r["segs"]
            for before, hop in zip(r["hops"], r["hops"][1:]):
                link = before["node"], hop["node"]
                self.links[link] += segments
                if "link_ns" in hop and "queue_unseen" not in before:
                    self.on_link[link] += [hop["link_ns"]] * segments
                if "queue_ns" in before and before["node"] == "r2":
                    self.queue += [before["queue_ns"]] * segments
            for hop in r["hops"]:
                if "node_ns" in hop:
                    self.inside[hop["node"]] += [hop["node_ns"]] * segments
            if "loss" in r:
                self.lost[r["loss"]["node"], r["loss"]["at"]] += segments


def window(records):
    """The packets of the tenth of a second in which both the queue and the firewall drop the most."""
    drops = collections.defaultdict(collections.Counter)
    for r in records:
        if "loss" in r:
            drops[r["t_ns"] // WINDOW][r["loss"]["at"]] += 1
    first = max(drops, key=lambda w: (min(20, drops[w]["node"]) * min(20, drops[w]["queue"]), drops[w]["queue"])) * WINDOW
    inside = sorted((r for r in records if first <= r["t_ns"] < first + WINDOW), key=lambda r: r["t_ns"])
    seen = collections.Counter()
    for r in inside:
        origin = r["hops"][0]["node"]
        if origin == "h3" or seen[origin] % EVERY == 0:
            yield r, (r["t_ns"] - first) * SLOW / 1e9
        seen[origin] += 1


STYLE = """
    .line { stroke: #57606a; stroke-width: 2; fill: none; }
    .node { fill: #ffffff; stroke: #57606a; stroke-width: 1.5; }
    .text { fill: #1f2328; }
    .dim { fill: #57606a; }
    .bold { font-weight: 600; }
    .lost { fill: #cf222e; font-weight: 600; }
    .queue { fill: none; stroke: #bf8700; stroke-width: 1.5; }
    .waittext { fill: #9a6700; font-weight: 600; }
    .moving circle { fill: #218bff; opacity: 0; }
    @media (prefers-color-scheme: dark) {
      .line { stroke: #8d96a0; }
      .node { fill: #161b22; stroke: #8d96a0; }
      .text { fill: #e6edf3; }
      .dim { fill: #9198a1; }
      .lost { fill: #ff7b72; }
      .queue { stroke: #d29922; }
      .waittext { fill: #e3b341; }
    }
    @media (prefers-reduced-motion: reduce) { .moving { display: none; } }
"""


def draw(records):
    run = Run(records)
    queue, firewall = run.lost["r2", "queue"], run.lost["r1", "node"]
    sent = run.links["h1", "r1"]
    lines = []

    def put(kind, x, y, what, more=""):
        lines.append(f'    <text class="{kind}" x="{x}" y="{y}"{more}>{what}</text>')

    small = ' font-size="12"'
    for link, x in ((("h1", "r1"), 155), (("r1", "r2"), 345), (("r2", "r3"), 594), (("r3", "h2"), 745)):
        put("text", x, 98, run.links[link])
        put("dim", x, 130, "p50 " + text_of(statistics.median(run.on_link[link])), small)
    for node in ("r1", "r2", "r3"):
        put("dim", CENTRE[node][0], 80, f"p50 {text_of(statistics.median(run.inside[node]))} inside", small)
    put("waittext", 517, 52, f"queue, 20 Mbit/s: p50 {text_of(statistics.median(run.queue))}")
    put("lost", 517, 180, f"{queue} lost: queue full")
    put("dim", 517, 198, "r2, port eth1 [QDISC_DROP, tbf]", small)
    put("text", 262, 172, run.links["h3", "r1"], ' text-anchor="start"')
    put("lost", 212, 158, f"{firewall} lost: firewall rule", ' text-anchor="end"')
    put("dim", 212, 176, "r1 [NETFILTER_DROP]", ' font-size="12" text-anchor="end"')

    nodes = "\n".join(
        f'    <rect class="node" x="{x - 34}" y="{y - 22}" width="68" height="44" rx="8"/>\n'
        f'    <text class="text bold" font-size="15" x="{x}" y="{y + 5}">{name}</text>'
        for name, (x, y) in CENTRE.items()
    )
    dots = "\n".join("    " + dot(r, begin) for r, begin in window(records))
    body = "\n".join(lines)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 880 270" width="880" height="270" role="img" aria-labelledby="title desc" font-family="ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif" font-size="13">
  <!-- Made by lab/picture.py (make picture). -->
  <title id="title">The network of make demo, as radar measured it</title>
  <desc id="desc">h1 sends {sent} packets by r1, r2 and r3 to h2. At the port of r2 toward r3 they wait in a queue of 20 Mbit/s, which drops {queue}. A firewall at r1 drops {firewall} packets of h3. Dots are packets of a tenth of a second, {SLOW} times slower.</desc>
  <style>{STYLE}  </style>
  <g text-anchor="middle">
    <path class="line" d="M94 110H216M284 110H406M474 110H636M704 110H786M250 132V198"/>
    <path class="queue" d="M{QUEUE[0] - 6} 101H{QUEUE[1] + 6}M{QUEUE[0] - 6} 119H{QUEUE[1] + 6}"/>
  </g>
  <g class="moving">
{dots}
  </g>
  <g text-anchor="middle">
{nodes}
{body}
  </g>
  <text class="dim" x="26" y="24" font-size="12">Packets to h2: counts, times and losses of a whole run. Dots: one in {EVERY} packets of 0.1 s, {SLOW} times slower; on links slower still</text>
</svg>
"""


if len(sys.argv) != 2:
    sys.exit(__doc__)
with open(sys.argv[1], encoding="utf-8") as source:
    sys.stdout.write(draw([r for r in map(json.loads, source) if r.get("hops")]))
