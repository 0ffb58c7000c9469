# SPDX-License-Identifier: Apache-2.0
"""Makes one HTML page, or pages of Markdown, of all results."""

import base64
import html
import importlib.util
import io
import json

import matplotlib

from .figure import NOT_RUN, Figure
from .lab import ROOT

matplotlib.use("Agg")
from matplotlib.figure import Figure as Canvas  # noqa: E402 - after the choice of what draws

EXPERIMENTS = ROOT / "experiments"


def names():
    """The experiments' folders, in order."""
    return sorted(d.name for d in EXPERIMENTS.iterdir() if (d / "show.py").exists() and (d / "README.md").exists())


def title(name):
    """The first line of an experiment's README."""
    return (EXPERIMENTS / name / "README.md").read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def figures(name, path):
    """The figures of an experiment, from a result's file. No file, no figures."""
    if not path.exists():
        return None, [Figure(f"{name}-none", title(name), "-", NOT_RUN, f"There is no {path.name}: make experiments ONLY={name}")]
    result = json.loads(path.read_text(encoding="utf-8"))
    spec = importlib.util.spec_from_file_location(f"show_{name}", EXPERIMENTS / name / "show.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return result, module.show(result)


def plot(figure, kind):
    """The plot of a figure as bytes of svg or png."""
    canvas = Canvas(figsize=figure.size, layout="constrained")
    figure.draw(canvas)
    out = io.BytesIO()
    # Without a date and with fixed names: the same data make the same file.
    matplotlib.rcParams["svg.hashsalt"] = figure.id
    canvas.savefig(out, format=kind, dpi=110, metadata={"Date": None} if kind == "svg" else {"Software": None})
    return out.getvalue()


def conditions(result):
    """One sentence: when, where, of which commit, and how noisy it was."""
    m, n = result["machine"], result["noise"]
    return (
        f"{result['date']}, {result['form']} form, seed {result['seed']}, commit {m['commit']}, Linux {m['kernel']}, "
        f"{m['cpus']} CPUs ({m['cpu_model']}), {m['memory_gib']} GiB. Noise: the same work took up to {n['spread']:.2f} times its median "
        f"(95 %, {n['samples']} samples), load up to {n['load_max']:.1f}, {n['stolen_percent']:.1f} % of the CPUs' time stolen."
    )


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: .6rem 0; font-size: 13px }
th, td { border: 1px solid #ccc; padding: .2rem .5rem; text-align: left; vertical-align: top }
th { background: #f2f2f2 } caption, .conditions { font-size: 12px; color: #555; text-align: left; caption-side: bottom }
.verdict { font-weight: 600 } img { max-width: 100% } code { background: #f2f2f2 }
"""


def as_html(results):
    """One page with everything in it; results is a list of (name, result, figures)."""
    out = ["<!doctype html><html lang=en><meta charset=utf-8><title>radar: experiments</title>", f"<style>{STYLE}</style>",
           "<h1>radar: experiments</h1><p>The figures of <i>vNetRadar</i> (Ma et al., GLOBECOM 2022) measured again, and some of our own.</p>",
           "<table><tr><th>figure</th><th>paper</th><th>verdict</th><th>finding</th></tr>"]
    for _, _, shown in results:
        for f in shown:
            out.append(f"<tr><td><a href='#{f.id}'>{html.escape(f.title)}</a></td><td>{f.paper}</td><td class=verdict>{f.verdict}</td><td>{html.escape(f.finding)}</td></tr>")
    out.append("</table>")
    for name, result, shown in results:
        out.append(f"<h2>{html.escape(title(name))}</h2><p><code>make experiments ONLY={name}</code></p>")
        if result:
            out.append(f"<p class=conditions>{html.escape(conditions(result))}</p>")
        for f in shown:
            out.append(f"<h3 id='{f.id}'>{html.escape(f.title)}</h3><p><span class=verdict>{f.verdict}</span>: {html.escape(f.finding)}</p>")
            if f.draw:
                image = base64.b64encode(plot(f, "png")).decode()
                out.append(f"<img alt='{html.escape(f.title)}' src='data:image/png;base64,{image}'>")
            for t in f.tables:
                out.append("<table>" + (f"<caption>{html.escape(t.caption)}</caption>" if t.caption else ""))
                out.append("<tr>" + "".join(f"<th>{html.escape(str(c))}</th>" for c in t.columns) + "</tr>")
                out.extend("<tr>" + "".join(f"<td>{html.escape(str(c))}</td>" for c in row) + "</tr>" for row in t.rows)
                out.append("</table>")
    return "\n".join(out) + "\n"


def summary(results):
    """docs/experiments.md's table: each figure with its command, verdict and finding."""
    rows = ["| figure | paper | command | verdict | finding |", "|---|---|---|---|---|"]
    for name, _, shown in results:
        for f in shown:
            link = f"[{f.title}](../experiments/{name}/results/README.md#{f.id})"
            rows.append(f"| {link} | {f.paper} | `make experiments ONLY={name}` | **{f.verdict}** | {_cell(f.finding)} |")
    return "\n".join(rows) + "\n"


def as_markdown(name, result, shown):
    """An experiment's results as a page; its plots lie beside it as ID.png."""
    out = [f"# {title(name)}: results", "", f"Generated by `make experiments-record`. {conditions(result)}", ""]
    for f in shown:
        out += [f"<a id=\"{f.id}\"></a>", "", f"## {f.title}", "", f"Paper: {f.paper}. **{f.verdict}**: {f.finding}", ""]
        if f.draw:
            out += [f"![{f.title}]({f.id}.png)", ""]
        for t in f.tables:
            out += ["| " + " | ".join(_cell(c) for c in t.columns) + " |", "|" + "---|" * len(t.columns)]
            out += ["| " + " | ".join(_cell(c) for c in row) + " |" for row in t.rows]
            out += ["", *([t.caption, ""] if t.caption else [])]
    return "\n".join(out)


def _cell(value):
    return str(value).replace("|", "\\|").replace("\n", " ")
