// SPDX-License-Identifier: Apache-2.0
// The topology as tables: what the canvas shows, for everybody who does not see it, and for tests.

import { html, Notes, useState } from './ui.js';
import { choices } from './url.js';
import { clock, count, duration, perSecond, rate } from './format.js';
import * as store from './store.js';

const shown = 80; // rows of each list: more would cost frames each second

const orders = {
  lost: (a, b) => b.lost + b.expired - a.lost - a.expired || (b.bps ?? 0) - (a.bps ?? 0) || b.total - a.total,
  rate: (a, b) => (b.bps ?? 0) - (a.bps ?? 0) || b.total - a.total,
  latency: (a, b) => (b.p50 ?? 0) + (b.queue ?? 0) - (a.p50 ?? 0) - (a.queue ?? 0),
};

/** What a link's load is in words. */
export function linkLabel(id, load) {
  const parts = [`${count(load.lost)} lost${load.lostNow > 0 ? `, ${perSecond(load.lostNow)} now` : ''}`];
  if (load.expired) parts.push(`${count(load.expired)} expired`);
  if (load.bps !== undefined) parts.push(rate(load.bps));
  if (load.p50 !== undefined) parts.push(`latency ${duration(load.p50)}`);
  if (load.queue !== undefined) parts.push(`queue ${duration(load.queue)}`);
  return `${id}: ${parts.join(', ')}`;
}

export function Overview() {
  const { order } = store.state.value;
  const [part, setPart] = useState('');
  const topology = store.topology.value;
  void store.tick.value;
  void store.graphChanged.value;
  void store.moments.value;
  if (!topology) return html`<p class="muted">No topology yet.</p>`;
  const wanted = (text) => text.toLowerCase().includes(part.toLowerCase());
  const rows = store.graph.edges.flatMap((e) => [`${e.from} > ${e.to}`, `${e.to} > ${e.from}`]).filter(wanted)
    .map((id) => ({ id, ...store.loadOf(id) })).sort(orders[order]);
  const nodes = [...store.graph.vertices.values()].filter((v) => v.kind === 'node' && wanted(v.name));
  return html`<div class="overview">
    <div class="row"><input type="search" placeholder="Find a link or node" aria-label="Find a link or node" value=${part} onInput=${(e) => setPart(e.target.value)} />
      <label class="order">by <select value=${order} onChange=${(e) => store.go({ order: e.target.value })} aria-label="by: the order of links">
        ${choices.order.map((o) => html`<option value=${o}>${o === 'lost' ? 'losses' : o}</option>`)}</select></label></div>
    ${store.shownPast.value && html`<p class="muted until">Of the packets in the time machine, until ${clock(store.pastRange.value?.at)}.</p>`}
    <h2 class="small">Links</h2>
    <ul class="links" aria-label="Links">${rows.slice(0, shown).map((row) => html`<${LinkRow} key=${row.id} row=${row} />`)}</ul>
    ${rows.length > shown && html`<p class="muted">${rows.length - shown} more: find one above.</p>`}
    <h2 class="small">Nodes</h2>
    <ul class="nodes" aria-label="Nodes">${nodes.slice(0, shown).map((v) => html`<${NodeRow} key=${v.name} vertex=${v} />`)}</ul>
    ${nodes.length > shown && html`<p class="muted">${nodes.length - shown} more: find one above.</p>`}
    <${Notes} notes=${topology.notes} /></div>`;
}

function LinkRow({ row }) {
  const lost = row.lost + row.expired;
  return html`<li><button class=${row.total || row.used ? '' : 'idle'} title=${linkLabel(row.id, row)} data-link=${row.id} data-lost=${row.lost} onClick=${() => store.go({ sel: `link:${row.id}` })}>
    <span class="name">${row.id}</span>
    <span class="numbers"><span>${row.bps === undefined ? `${count(row.total)} ${row.total === 1 ? 'pkt' : 'pkts'}` : rate(row.bps)}</span><span>${duration(row.p50)}</span>
      ${row.queue !== undefined && html`<span title="in the queue">queue ${duration(row.queue)}</span>`}
      <${Lost} lost=${lost} now=${row.lostNow} /></span></button></li>`;
}

/** A number of losses, and how many there are each second. */
function Lost({ lost, now }) {
  if (!lost) return null;
  return html`<span class="loss"><span aria-hidden="true">✕ </span>${count(lost)}<span class="sr"> lost</span>${now > 0 && html` <span class="now">+${perSecond(now)}</span>`}</span>`;
}

function NodeRow({ vertex }) {
  void store.graphChanged.value;
  void store.moments.value;
  const lost = store.nodeLost(vertex.name);
  return html`<li><button title=${`${vertex.name}: ${vertex.class}, ${count(lost)} lost inside`} data-node=${vertex.name} data-lost=${lost} onClick=${() => store.go({ sel: `node:${vertex.name}` })}>
    <span class="name">${vertex.name}</span><span class="numbers"><span class="muted">${vertex.class}</span>
    ${vertex.load?.p50_ns !== undefined && !store.shownPast.value && html`<span>${duration(vertex.load.p50_ns)}</span>`}
    <${Lost} lost=${lost} now=${store.nodeLostNow(vertex.name)} /></span></button></li>`;
}

/** What lines, colours and marks mean. */
export function Legend({ steps, untimed, open }) {
  return html`<details class="legend" open=${open}><summary>Legend</summary><div class="body"><p>Colour: median latency of a link, with its queue</p>
    <div class="scale" role="img" aria-label="Latency of links, from 1 microsecond to 100 milliseconds">${steps.map((s) => html`<span><i style=${{ background: s.colour }}></i>${duration(s.ns).replace('.00', '').replace('.0', '').replace('100 ms', '≥0.1 s')}</span>`)}</div>
    <ul><li><i class="key" style=${{ background: untimed }}></i>passes, latency not known</li><li><i class="thin"></i><i class="thick"></i> width: rate</li><li><i class="pill">✕ 12</i> lost at this port or node, and how many now</li>
    <li><i class="key tcp"></i>tcp <i class="key udp"></i>udp <i class="key icmp"></i>icmp <i class="key other"></i>other</li></ul></div></details>`;
}
