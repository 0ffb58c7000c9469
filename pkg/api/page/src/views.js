// SPDX-License-Identifier: Apache-2.0
// Packets, flows, paths and losses, as tables.

import { html, useAsk, Answer, Table, useRef, useState } from './ui.js';
import { bytes, clock, count, duration, perSecond, rate, reason, share, why } from './format.js';
import { choices, flowKey, flowName } from './url.js';
import { Details } from './details.js';
import { ToLive, Until } from './moment.js';
import * as store from './store.js';

const every = 3000;

/** A table, and beside it what is chosen of it. */
function Split({ title, tools, children, side }) {
  return html`<div class=${side ? 'split open' : 'split'}><section class="main" tabindex="0" aria-label=${title}><div class="row head"><h1>${title}<${Until} /></h1>${tools}<${ToLive} /></div>${children}</section>${side}</div>`;
}

const pathOf = (record) => (record.hops ?? []).map((h) => h.node).join(' › ') || '–';

function StateCell({ record }) {
  return html`<span class=${`state ${record.state}`}>${record.state}</span>`;
}

export function PacketsView() {
  const [paused, setPaused] = useState(false);
  const ask = useAsk(['packets'], store.query({ limit: 300, state: store.state.value.state }), paused ? 0 : every);
  const { sel } = store.state.value;
  const rows = [...(ask.answer?.rows ?? [])].reverse();
  const columns = [
    { name: 'time', of: (r) => clock(r.time), class: 'time' },
    { name: 'state', of: (r) => html`<${StateCell} record=${r} />` },
    { name: 'flow', of: (r) => flowName(r) },
    { name: 'bytes', number: true, of: (r) => count(r.len) },
    { name: 'latency', number: true, of: (r) => duration(r.state === 'lost' ? undefined : r.latency_ns) },
    { name: 'path', of: (r) => (r.loss ? html`${pathOf(r)} <span class="loss-text">✕ ${why({ ...r.loss, why: r.why })}</span>` : pathOf(r)), class: 'wrap' },
  ];
  const tools = html`<label>state <select value=${store.state.value.state} onChange=${(e) => store.go({ state: e.target.value })}>
    ${choices.state.map((s) => html`<option value=${s}>${s || 'all'}</option>`)}</select></label>
    <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? 'Paused' : 'Pause'}</button>`;
  return html`<${Split} title="Packets" tools=${tools} side=${sel.startsWith('packet:') && html`<${Details} />`}>
    <${Answer} ask=${ask} empty="No packet matches.">
      <${Table} caption="The newest packets" columns=${columns} rows=${rows} keyOf=${(r) => r.id} chosen=${sel.replace(/^packet:/, '')} choose=${(r) => store.go({ sel: `packet:${r.id}` })} /><//><//>`;
}

export function FlowsView() {
  const { sort, sel } = store.state.value;
  const ask = useAsk(['flows'], store.query({ top: 100, sort }), every);
  const columns = [
    { name: 'flow', of: flowName },
    { name: 'packets', number: true, of: (r) => count(r.packets) },
    { name: 'rate', number: true, of: (r) => rate(r.rate_bps) },
    { name: 'p50', number: true, of: (r) => duration(r.latency?.p50_ns), title: 'median latency' },
    { name: 'p99', number: true, of: (r) => duration(r.latency?.p99_ns) },
    { name: 'jitter', number: true, of: (r) => duration(r.jitter_ns) },
    { name: 'lost', number: true, of: (r) => (r.lost ? html`<span class="loss-text">${count(r.lost)} (${share(r.lost, r.packets)})</span>` : '0') },
    { name: 'reordered', number: true, of: (r) => count(r.reordered) },
    { name: 'paths', number: true, of: (r) => count(r.paths) },
  ];
  const tools = html`<label>by <select value=${sort} onChange=${(e) => store.go({ sort: e.target.value })}>${choices.sort.map((s) => html`<option value=${s}>${s}</option>`)}</select></label>`;
  return html`<${Split} title="Flows" tools=${tools} side=${/^(flow|packet|link|node):/.test(sel) && html`<${Details} />`}>
    <${Answer} ask=${ask} empty="No flow matches."><${Table} caption="Flows" columns=${columns} rows=${ask.answer?.rows ?? []} keyOf=${flowKey}
      chosen=${sel.replace(/^flow:/, '')} choose=${(r) => store.go({ sel: `flow:${flowKey(r)}` })} /><//><//>`;
}

export function PathsView() {
  const ask = useAsk(['paths'], store.query(), every);
  const rows = ask.answer?.rows ?? [];
  const all = rows.reduce((n, r) => n + r.packets, 0) || 1;
  const columns = [
    { name: 'path', of: (r) => r.path.split(' > ').join(' › '), class: 'wrap' },
    { name: 'share', of: (r) => html`<span class="share"><i style=${{ width: `${r.packets / all * 100}%` }}></i></span> ${share(r.packets, all)}` },
    { name: 'packets', number: true, of: (r) => count(r.packets) },
    { name: 'bytes', number: true, of: (r) => bytes(r.bytes) },
    { name: 'flows', number: true, of: (r) => count(r.flows) },
    { name: 'p50', number: true, of: (r) => duration(r.latency?.p50_ns) },
    { name: 'p99', number: true, of: (r) => duration(r.latency?.p99_ns) },
    { name: 'lost', number: true, of: (r) => (r.lost ? html`<span class="loss-text">${count(r.lost)}</span>` : '0') },
    ...(rows.some((r) => r.expired) ? [{ name: 'expired', number: true, of: (r) => count(r.expired), title: 'not seen again' }] : []),
  ];
  const tools = html`<span class="muted">A click lights the path up on the topology.</span>`;
  return html`<${Split} title="Paths" tools=${tools}><${Answer} ask=${ask} empty="No path is known.">
    <${Table} caption="Paths that packets took" columns=${columns} rows=${rows} keyOf=${(r) => r.path}
      choose=${(r) => store.go({ view: 'topology', sel: `path:${r.path}` })} /><//><//>`;
}

const keyOfLoss = (r) => [r.node, r.port, r.at, r.reason, r.function, r.qdisc].join('|');

const noRates = () => ({ answer: undefined, at: 0, packets: new Map(), rates: new Map() });

/** How many packets a second rows have got since the answer before. Of a row that is new, and of the past, nothing is known. */
function useRates(answer, keyOf) {
  const kept = useRef(noRates());
  if (store.pastRange.value) kept.current = { ...noRates(), answer };
  else if (answer && answer !== kept.current.answer) {
    const { packets: before, at } = kept.current;
    const now = performance.now();
    const packets = new Map(answer.rows.map((r) => [keyOf(r), r.packets]));
    const rates = new Map([...packets].filter(([key]) => before.has(key)).map(([key, n]) => [key, (n - before.get(key)) / (now - at) * 1000]));
    kept.current = { answer, at: now, packets, rates };
  }
  return (row) => kept.current.rates.get(keyOf(row)) ?? 0;
}

export function LossesView() {
  const after = store.state.value.after === '1';
  const ask = useAsk(['loss'], store.query(after ? { after_delivery: true } : {}), every);
  const now = useRates(ask.answer, keyOfLoss);
  const lost = useAsk(['packets'], store.query({ limit: 100, state: 'lost,expired' }), every);
  const { sel } = store.state.value;
  const rows = ask.answer?.rows ?? [];
  const columns = [
    { name: 'packets', number: true, of: (r) => html`<span class="loss-text">${count(r.packets)}</span>` },
    { name: 'now', number: true, title: 'a second, between the last two answers', of: (r) => (now(r) > 0 ? html`<span class="loss-text">${perSecond(now(r))}</span>` : '') },
    { name: 'where', of: (r) => (r.port ? `${r.node}/${r.port}` : r.node) },
    { name: 'at', of: (r) => r.at },
    { name: 'why', of: (r) => html`<b>${why(r)}</b>`, class: 'wrap' },
    { name: 'reason', of: (r) => html`<code>${reason(r)}</code>`, class: 'wrap', title: "the kernel's words" },
    { name: 'queue', of: (r) => r.qdisc ?? '' },
    { name: 'bytes', number: true, of: (r) => bytes(r.bytes) },
    { name: 'flows', number: true, of: (r) => count(r.flows) },
  ];
  const tools = html`<label><input type="checkbox" checked=${after} onChange=${(e) => store.go({ after: e.target.checked ? '1' : '' })} /> after delivery</label>`;
  const place = (r) => (r.port && r.at !== 'node' && r.peer ? `link:${r.node}/${r.port} > ${r.peer}` : `node:${r.node}`);
  return html`<${Split} title="Losses" tools=${tools} side=${/^(packet|link|node|flow):/.test(sel) && html`<${Details} />`}>
    <${Answer} ask=${ask} empty="Nothing was lost."><${Table} caption="Losses by place and reason" columns=${columns} rows=${rows}
      keyOf=${keyOfLoss} choose=${(r) => store.go({ sel: place(r) })} /><//>
    <h2>The newest lost packets</h2>
    <${Answer} ask=${lost} empty="None."><${Table} caption="The newest lost packets" rows=${[...(lost.answer?.rows ?? [])].reverse()} keyOf=${(r) => r.id}
      chosen=${sel.replace(/^packet:/, '')} choose=${(r) => store.go({ sel: `packet:${r.id}` })}
      columns=${[{ name: 'time', of: (r) => clock(r.time), class: 'time' }, { name: 'flow', of: flowName }, { name: 'lost at', of: (r) => [r.loss?.node, r.loss?.port].filter(Boolean).join('/') },
    { name: 'why', of: (r) => (r.loss ? why({ ...r.loss, why: r.why }) : r.state) }, { name: 'path', of: pathOf, class: 'wrap' }]} /><//><//>`;
}
