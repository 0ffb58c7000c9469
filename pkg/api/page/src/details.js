// SPDX-License-Identifier: Apache-2.0
// What is chosen: a link, a node, a flow, a packet.

import { html, useAsk, Answer, Facts, Problem, Notes } from './ui.js';
import { bytes, count, duration, perSecond, rate, reason, share, why } from './format.js';
import { explainCommand, selection, flowKey, flowTitle } from './url.js';
import { Histogram, TimeLine } from './plots.js';
import { Overview } from './overview.js';
import { Packet } from './packet.js';
import { SentUntil } from './moment.js';
import * as store from './store.js';
import * as player from './player.js';

const parts = { link: Link, node: Node, flow: Flow, packet: Packet, path: Path };

export function Details() {
  const { kind, name } = selection(store.state.value.sel);
  const Part = parts[kind];
  if (!Part) return html`<aside class="panel" tabindex="0" aria-label="Overview"><${Overview} /></aside>`;
  return html`<aside class="panel" tabindex="0" aria-label=${`Details of the ${kind}`}>
    <div class="crumbs"><button class="quiet" onClick=${() => store.go({ sel: '' })}>← All</button><span class="muted">${kind}</span></div>
    ${kind !== 'packet' && html`<${SentUntil} />`}
    <${Part} key=${name} name=${name} /></aside>`;
}

/** The middle of a histogram's values, as exact as its buckets are. */
function median(answer) {
  let left = (answer?.count ?? 0) / 2;
  const middle = answer?.buckets.find((b) => (left -= b.count) <= 0);
  return middle && Math.round((middle.ge + middle.le) / 2);
}

/** How many packets the rows of an answer have, once it is there. */
const sum = (answer, rows) => (answer ? rows.reduce((n, r) => n + r.packets, 0) : undefined);

/** A link's load in the past, of the answers that its panel has. Nobody knows how many passed one that is never timed. */
function loadThen(name, by, queue, lost) {
  const { known, total } = store.loadOf(name);
  const timed = store.totals.get(name)?.p50_ns !== undefined;
  const passed = timed ? by?.count : store.shownPast.value && total;
  return { known: known && passed !== undefined, total: passed, p50: median(by), queue: median(queue), lost };
}

function Link({ name }) {
  void store.tick.value;
  const past = store.pastRange.value;
  const now = store.loadOf(name);
  const [from, to] = name.split(' > ');
  const by = useAsk(['histogram'], store.query({ by: 'link', name }), 5000);
  const queue = useAsk(!past && now.queue === undefined ? null : ['histogram'], store.query({ by: 'queue', name: from }), 5000);
  const lossAsk = useAsk(['loss'], store.query({}), 5000);
  const [node, port] = [from?.slice(0, from.lastIndexOf('/')), from?.slice(from.lastIndexOf('/') + 1)];
  const losses = (lossAsk.answer?.rows ?? []).filter((r) => r.node === node && r.port === port && r.at !== 'node');
  const load = past ? loadThen(name, by.answer, queue.answer, sum(lossAsk.answer, losses)) : now;
  const line = store.linkSeries.get(name);
  return html`<h2>${from} <span class="arrow">→</span> ${to}</h2>
    <${Facts} facts=${[['rate', load.bps !== undefined ? rate(load.bps) : undefined], ['packets', load.known ? count(load.total) : '–'], ['latency, median', duration(load.p50)],
      ['queue, median', load.queue !== undefined ? duration(load.queue) : undefined], ['lost', html`<span class=${load.lost ? 'loss-text' : ''}>${load.known || past ? count(load.lost) : '–'}${load.lostNow > 0 ? `, ${perSecond(load.lostNow)} now` : ''}</span>`],
      ['expired', load.expired || undefined]]} />
    <button class="quiet" onClick=${() => store.go({ sel: `link:${to} > ${from}` })}>⇄ The other direction</button>
    <${Losses} rows=${losses} />
    ${line && !past && html`<${TimeLine} title="Latency" unit=${duration} data=${line.table(['p50', 'p99', 'queue'])}
        lines=${[{ name: 'median', colour: 'a' }, { name: '99 %', colour: 'b', dash: [4, 3] }, { name: 'queue', colour: 'c' }]} />
      <${TimeLine} title="Rate" unit=${rate} data=${line.table(['bps'])} lines=${[{ name: 'rate', colour: 'a' }]} />
      <${TimeLine} title="Lost" unit=${perSecond} data=${line.table(['lost'])} lines=${[{ name: 'lost', colour: 'loss' }]} />`}
    <${Problem} error=${by.error} />
    ${by.answer && html`<${Histogram} title="Latency on the link" answer=${by.answer} />`}
    ${queue.answer?.count > 0 && html`<${Histogram} title="Wait in the queue" answer=${queue.answer} />`}
    <${Notes} notes=${by.answer?.notes} />`;
}

/** Losses at a place, by reason. */
function Losses({ rows }) {
  if (!rows.length) return null;
  return html`<h3>Lost here</h3><ul class="reasons">${rows.map((r) => html`<li><span class="loss-text">✕ ${count(r.packets)}</span>
    <span><b>${why(r)}</b> ${r.qdisc ? `in the queue (${r.qdisc})` : r.at} <span class="muted">${reason(r)}</span>
    <${TopFlows} rows=${r.top_flows} /></span></li>`)}</ul>`;
}

function TopFlows({ rows }) {
  return html`<ul class="plain">${(rows ?? []).slice(0, 3).map((f) => html`<li><button class="link" onClick=${() => store.go({ sel: `flow:${flowKey(f)}` })}>
    ${flowTitle(flowKey(f))}</button> ${count(f.packets)}</li>`)}</ul>`;
}

function Node({ name }) {
  void store.tick.value;
  const vertex = store.graph.vertices.get(name);
  const by = useAsk(['histogram'], store.query({ by: 'node', name }), 5000);
  const lossAsk = useAsk(['loss'], store.query({}), 5000);
  const after = useAsk(['loss'], store.query({ after_delivery: true }), 10000);
  const line = store.nodeSeries.get(name);
  const here = (ask) => (ask.answer?.rows ?? []).filter((r) => r.node === name);
  const past = store.pastRange.value;
  const lost = past ? sum(lossAsk.answer, here(lossAsk)) : store.nodeLost(name);
  const residence = past ? median(by.answer) : line?.last('p50') ?? vertex?.load?.p50_ns;
  return html`<h2>${name}</h2>
    <${Facts} facts=${[['kind', vertex?.class], ['is', vertex?.spec], ['residence, median', duration(residence)],
      ['lost here', html`<span class=${lost ? 'loss-text' : ''}>${count(lost)}</span>`]]} />
    <${Losses} rows=${here(lossAsk)} />
    ${here(after).length > 0 && html`<h3>Dropped after delivery</h3><ul class="reasons">${here(after).map((r) => html`<li><span>${count(r.packets)}</span><span><b>${why(r)}</b> <span class="muted">${reason(r)}</span></span></li>`)}</ul>`}
    ${line && !past && html`<${TimeLine} title="Time inside" unit=${duration} data=${line.table(['p50', 'p99'])}
      lines=${[{ name: 'median', colour: 'a' }, { name: '99 %', colour: 'b', dash: [4, 3] }]} />
      <${TimeLine} title="Packets" unit=${perSecond} data=${line.table(['packets'])} lines=${[{ name: 'packets/s', colour: 'a' }]} />`}
    <${Problem} error=${by.error} />
    ${by.answer && html`<${Histogram} title="Time inside the node" answer=${by.answer} />`}
    <h3>Ports</h3><ul class="ports">${(vertex?.ports ?? []).map((p) => html`<li><b>${p.name}</b> ${p.peer && html`<span class="muted">to ${p.peer}</span>`}
      ${p.lower && html`<span class="muted">on ${p.lower}</span>`} ${p.beside && html`<span class="muted">beside ${p.beside.join(', ')}</span>`}
      ${p.uppers && html`<span class="muted">below ${p.uppers.join(', ')}</span>`}
      ${p.queue && html`<span class="tag">${p.queue}</span>`} ${p.state && p.state !== 'up' && html`<span class="tag">${p.state}</span>`}
      <span class="muted">${(p.addresses ?? []).filter((a) => !a.startsWith('fe80')).join(' ')}</span></li>`)}</ul>`;
}

function Flow({ name }) {
  const ask = useAsk(['flows'], store.query({ top: 20 }, name), 3000);
  const by = useAsk(['latency'], store.query({ by: 'flow', top: 20 }, name), 5000);
  const flow = ask.answer?.rows?.find((row) => flowKey(row) === name); // no other one, whatever the filter lets through
  const followed = store.state.value.flow === name;
  const follow = () => (followed ? player.unfollow() : player.follow(name));
  const domain = store.domains.value.find((d) => d.name === store.state.value.domain);
  const explain = flow && explainCommand(domain, name); // of what is only in the address no command is made
  const latency = by.answer?.rows?.length === 1 ? by.answer.rows[0] : flow?.latency;
  return html`<h2>${flowTitle(name)}</h2>
    <p><button class="primary" onClick=${follow}>${followed ? 'Follow all flows again' : 'Follow it in the time machine'}</button></p>
    <${Answer} ask=${ask} empty="No packet of this flow is known.">${!flow && html`<p class="empty">No packet of this flow is known.</p>`}${flow && html`
    <${Facts} facts=${[['rate', rate(flow.rate_bps)], ['packets', count(flow.packets)], ['bytes', bytes(flow.bytes)], ['duration', duration(flow.duration_ns)],
      ['delivered', `${count(flow.delivered)} (${share(flow.delivered, flow.packets)})`], ['left', flow.left || undefined],
      ['lost', html`<span class=${flow.lost ? 'loss-text' : ''}>${count(flow.lost)} (${share(flow.lost, flow.packets)})</span>`], ['expired', flow.expired || undefined],
      ['jitter', duration(flow.jitter_ns)], ['reordered', flow.reordered !== undefined ? `${count(flow.reordered)} (${share(flow.reordered, flow.packets)})` : undefined]]} />`}
    ${explain && html`<p class="muted">${name.startsWith('tcp') ? 'Why it was slow, and why data was sent again' : 'Why it was slow'}${domain.source === 'recording' ? ', in the folder that has the recording' : ''}: <code>${explain}</code></p>`}
    ${latency && html`<h3>Latency, end to end <span class="muted">(bars: logarithmic)</span></h3><${Percentiles} row=${latency} />`}
    ${flow?.path_list && html`<h3>Paths</h3><ul class="paths">${flow.path_list.map((p) => html`<li><span class="share"><i style=${{ width: `${p.packets / flow.packets * 100}%` }}></i></span>
      ${p.path} <span class="muted">${count(p.packets)}</span></li>`)}</ul>`}<//>`;
}

/** A path that is lit up on the topology. */
function Path({ name }) {
  const ask = useAsk(['paths'], store.query(), 5000);
  const row = ask.answer?.rows?.find((r) => r.path === name);
  return html`<h2>${name.split(' > ').join(' › ')}</h2><${Problem} error=${ask.error} />
    ${row && html`<${Facts} facts=${[['packets', count(row.packets)], ['bytes', bytes(row.bytes)], ['flows', count(row.flows)], ['lost', count(row.lost)]]} />
    ${row.latency && html`<h3>Latency, end to end <span class="muted">(bars: logarithmic)</span></h3><${Percentiles} row=${row.latency} />`}`}`;
}

/** Percentiles as bars on a logarithmic scale. */
export function Percentiles({ row }) {
  const all = [['least', row.min_ns], ['50 %', row.p50_ns], ['90 %', row.p90_ns], ['99 %', row.p99_ns], ['99.9 %', row.p99_9_ns], ['most', row.max_ns]].filter(([, v]) => v !== undefined);
  const low = Math.log(Math.max(1, row.min_ns ?? 1) / 2);
  const high = Math.log(Math.max(2, row.max_ns ?? 2));
  return html`<ul class="percentiles">${all.map(([name, v]) => html`<li><span>${name}</span><span class="meter"><i style=${{ width: `${Math.max(2, (Math.log(Math.max(1, v)) - low) / (high - low) * 100)}%` }}></i></span>
    <span class="number">${duration(v)}</span></li>`)}</ul>`;
}
