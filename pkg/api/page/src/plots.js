// SPDX-License-Identifier: Apache-2.0
// Plots: time lines by uPlot, histograms as bars.

import uPlot from './lib/uplot/uplot.js';
import { html, useEffect, useRef } from './ui.js';
import { duration } from './format.js';
import * as store from './store.js';

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A time line. lines are {name, colour (of style.css), dash}. data is [seconds, values, ...].
 * @param {{title: string, lines: object[], data: any[], unit: (v: number) => string}} props
 */
export function TimeLine({ title, lines, data, unit }) {
  const ref = useRef(null);
  const plot = useRef(null);
  const theme = store.theme.value;
  useEffect(() => {
    plot.current = new uPlot(options(ref.current.clientWidth, lines, unit), data, ref.current);
    const follow = new ResizeObserver(() => plot.current.setSize({ width: ref.current.clientWidth, height: 120 }));
    follow.observe(ref.current);
    return () => {
      follow.disconnect();
      plot.current.destroy();
    };
  }, [theme, lines.map((l) => l.name).join()]);
  useEffect(() => plot.current?.setData(data), [data]);
  return html`<figure class="plot"><figcaption>${title}
    <span class="keys">${lines.map((l) => html`<span><i class=${`key ${l.colour}`}></i>${l.name}</span>`)}</span></figcaption>
    <div class="canvas" ref=${ref}></div></figure>`;
}

function options(width, lines, unit) {
  const axis = { stroke: style('--muted'), grid: { stroke: style('--line'), width: 1 }, ticks: { stroke: style('--line'), width: 1 }, font: '11px system-ui' };
  return {
    width, height: 120, legend: { show: false }, cursor: { drag: { x: false, y: false } }, padding: [8, 6, 0, 0],
    scales: { x: { time: true }, y: { range: (u, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [{ ...axis, size: 26, space: 70 }, { ...axis, size: 76, gap: 4, ticks: { ...axis.ticks, size: 4 }, space: 28, values: (u, ticks) => ticks.map((v) => (v === 0 ? '0' : unit(v))) }],
    series: [{}, ...lines.map((l) => ({ label: l.name, stroke: style(`--${l.colour}`), width: 1.6, dash: l.dash, points: { show: false }, spanGaps: false }))],
  };
}

const barsShown = 40;

/** A histogram of durations. buckets are {le, count}, as the server has them. @param {{title: string, answer: any}} props */
export function Histogram({ title, answer }) {
  const bars = merged(answer?.buckets ?? []);
  if (!bars.length) return html`<p class="muted">No times are known.</p>`;
  const most = Math.max(...bars.map((b) => b.count));
  const width = 320 / bars.length;
  return html`<figure class="plot"><figcaption>${title} <span class="muted">${answer.count} packets</span></figcaption>
    <svg class="bars" viewBox="0 0 320 92" preserveAspectRatio="none" role="img" aria-label=${`${title}: from ${duration(bars[0].from)} to ${duration(bars[bars.length - 1].le)}`}>
      ${bars.map((b, i) => html`<rect x=${i * width + 0.5} width=${Math.max(width - 1, 0.6)} y=${90 - b.count / most * 84} height=${b.count / most * 84}>
        <title>${`${duration(b.from)} to ${duration(b.le)}: ${b.count}`}</title></rect>`)}
    </svg>
    <div class="ends"><span>${duration(bars[0].from)}</span><span>${duration(bars[Math.floor(bars.length / 2)].le)}</span><span>${duration(bars[bars.length - 1].le)}</span></div></figure>`;
}

/** Buckets on a logarithmic scale, without the empty ones at the ends. */
export function merged(buckets) {
  const full = buckets.filter((b) => b.count > 0);
  if (!full.length) return [];
  const low = Math.max(1, full[0].le * 0.9);
  const high = Math.max(full[full.length - 1].le, low * 1.5);
  const n = Math.min(barsShown, Math.max(8, full.length));
  const ratio = (high / low) ** (1 / n);
  const bars = Array.from({ length: n }, (_, i) => ({ from: low * ratio ** i, le: low * ratio ** (i + 1), count: 0 }));
  for (const b of full) {
    const i = Math.min(n - 1, Math.max(0, Math.ceil(Math.log(b.le / low) / Math.log(ratio)) - 1));
    bars[i].count += b.count;
  }
  return bars;
}
