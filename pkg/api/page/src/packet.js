// SPDX-License-Identifier: Apache-2.0
// One packet: its story as a time line, and its headers as they truly were.

import { html, useAsk, Facts, Notes, Problem } from './ui.js';
import { clock, duration, reason, tcp, why } from './format.js';
import { flowKey, flowName } from './url.js';
import { journeyOf } from './journey.js';
import * as store from './store.js';
import * as player from './player.js';

export function Packet({ name }) {
  const ask = useAsk(['packets', name], {});
  const record = ask.answer?.record ?? known(name);
  if (!record) return html`<h2>${name}</h2><${Problem} error=${ask.error} />${ask.busy && html`<p class="muted">Asking…</p>`}`;
  return html`<h2>${flowName(record)}</h2>
    <p class=${`state ${record.state}`}>${record.state}${record.latency_ns !== undefined && record.state !== 'lost' ? ` after ${duration(record.latency_ns)}` : ''} <span class="muted">${clock(record.time)}</span></p>
    <p class="row"><button class="primary" onClick=${() => player.visit(record)}>${record.loss ? 'Show where it was lost' : 'Show it moving'}</button>
      <button onClick=${() => store.go({ sel: `flow:${flowKey(record)}` })}>Its flow</button></p>
    <${Story} record=${record} />
    <h3>Headers</h3><${Headers} record=${record} />
    <${Changes} record=${record} />
    <${Problem} error=${ask.error} /><${Words} story=${ask.answer?.story} />
    <${Notes} notes=${ask.answer?.notes} />`;
}

/** A record that the page has anyway is shown at once. */
function known(id) {
  return player.machine.journeys.find((j) => j.id === id)?.record ?? store.recentLost.list().find((r) => r.id === id) ?? store.recent.list().find((r) => r.id === id);
}

/** Where the packet was at what time, one row for each stay. */
function Story({ record }) {
  const journey = journeyOf(record, store.epoch);
  const whole = Math.max(1, journey.end - journey.start);
  const rows = journey.segments.map((s) => ({ ...s, lost: false })).sort((a, b) => a.t0 - b.t0 || a.t1 - b.t1);
  const last = journey.falls[0];
  return html`<h3>Story</h3><ol class="story" aria-label="Story of the packet">
    <li class="end"><span>${record.hops?.[0]?.node ?? ''}</span><span class="muted">sent</span></li>
    ${rows.map((s) => html`<li key=${`${s.kind}${s.hop}${s.t0}`}><span class="where">${place(s)}</span>
      <span class="track"><i class=${s.kind} style=${{ left: `${(s.t0 - journey.start) / whole * 100}%`, width: `${Math.max(0.8, (s.t1 - s.t0) / whole * 100)}%` }}></i></span>
      <span class="number">${duration(s.t1 - s.t0)}</span></li>`)}
    ${last ? html`<li class="end lost"><span>✕ lost at ${last.node}${last.port ? `/${last.port}` : ''}</span><span><b>${why({ ...last, why: record.why })}</b> <span class="muted">${reason({ ...last, why: record.why })}</span></span></li>`
      : html`<li class="end"><span>${record.hops?.[record.hops.length - 1]?.node ?? ''}</span><span class="muted">${record.state}</span></li>`}</ol>
    <p class="keys muted"><i class="key link"></i>link <i class="key queue"></i>queue <i class="key node"></i>inside</p>`;
}

function place({ kind, from, to }) {
  if (kind === 'link') return `${from.node} → ${to.node}`;
  return kind === 'queue' ? `${from.node}/${from.port ?? ''} queue` : `${from.node} inside`;
}

const sent = (was, is) => (is === undefined ? was : html`${was} <span class="muted">sent on as</span> ${is}`);

function Headers({ record: r }) {
  return html`<${Facts} facts=${[['from', r.sport === undefined ? r.src : `${r.src} port ${r.sport}`], ['to', r.dport === undefined ? r.dst : `${r.dst} port ${r.dport}`],
    ['protocol', `${r.proto} over IPv${r.ip_version}`], ['length', `${r.len} bytes${r.segs > 1 ? `, ${r.segs} segments` : ''}`],
    [r.ip_version === 6 ? 'hop limit' : 'TTL', sent(r.ttl, r.ttl_sent)], ['DSCP', sent(r.dscp, r.dscp_sent)], ['ECN', sent(r.ecn, r.ecn_sent)], ['IP ID', r.ip_id],
    ['flow label', r.flow_label], ['TCP', tcp(r)], ['ICMP type', r.icmp_type], ['ICMP id, seq', r.icmp_id === undefined ? undefined : `${r.icmp_id}, ${r.icmp_seq}`],
    ['fragment at', r.frag_off], ['inside it', r.inner && html`<button class="link" onClick=${() => store.go({ sel: `packet:${r.inner}` })}>${r.inner}</button>`],
    ['GUID', r.guid], ['id', r.id]]} />`;
}

/** What nodes changed (NAT), and what switches said of it (INT). */
function Changes({ record }) {
  const rows = (record.hops ?? []).filter((h) => h.src || h.dst || h.sport || h.dport || h.int);
  if (!rows.length) return null;
  return html`<h3>At nodes</h3><ul class="reasons">${rows.map((h) => html`<li><b>${h.node}</b><span>
    ${['src', 'sport', 'dst', 'dport'].filter((k) => h[k] !== undefined).map((k) => html`<code>${k} ${h[k]}</code> `)}
    ${Object.entries(h.int ?? {}).map(([k, v]) => html`<code>${k} ${String(v)}</code> `)}</span></li>`)}</ul>`;
}

/** The same in sentences, where the server has them. */
function Words({ story }) {
  const lines = Array.isArray(story) ? story.map((s) => (typeof s === 'string' ? s : s.text)).filter(Boolean) : [];
  if (!lines.length) return null;
  return html`<details><summary>In words</summary><pre>${lines.join('\n')}</pre></details>`;
}
