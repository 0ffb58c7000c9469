// SPDX-License-Identifier: Apache-2.0
// The management of INT: service, devices with their roles, intents, events.

import { html, useAsk, Facts, Problem, Table, useState, Dialog } from './ui.js';
import { clock, count } from './format.js';
import { send, inDomain } from './api.js';
import { ConfigForm, IntentForm } from './int-form.js';
import { Plan } from './int-plan.js';
import { attempt, TokenDialog } from './token.js';
import * as store from './store.js';

/** Answers are a list, or rows with notes. */
export const rowsOf = (answer) => (Array.isArray(answer) ? answer : answer?.rows ?? []);

export function IntView() {
  const [form, setForm] = useState(false);
  const [removing, setRemoving] = useState('');
  const [config, setConfig] = useState(undefined);
  const intents = useAsk(['int', 'intents'], {}, 3000);
  const devices = useAsk(['int', 'devices'], {}, 5000);
  const settings = useAsk(['int', 'config'], {});
  const past = useAsk(['int', 'events'], {}, 3000);
  const service = useAsk(['int', 'service'], {}, 3000);
  const done = () => {
    setForm(false);
    setRemoving('');
    setConfig(undefined);
    settings.again();
    intents.again();
    devices.again();
    service.again();
  };
  const domain = store.state.value.domain;
  return html`<div class="split"><section class="main" aria-label="INT">
    <div class="row head"><h1>In-band network telemetry</h1><${Service} ask=${service} done=${done} />
      <button class="primary" onClick=${() => setForm(true)}>Add an intent</button></div>
    <h2>Intents</h2><${Problem} error=${intents.error} />
    <${Intents} rows=${rowsOf(intents.answer)} asked=${Boolean(intents.answer)} remove=${setRemoving} />
    <h2>Devices</h2><${Problem} error=${devices.error} /><${Devices} rows=${rowsOf(devices.answer)} asked=${Boolean(devices.answer)} />
    <h2>Settings</h2><${Settings} ask=${settings} edit=${setConfig} />
    <h2>Events</h2><${Problem} error=${past.error} /><${Events} rows=${rowsOf(past.answer)} /></section>
    ${form && html`<${IntentForm} devices=${rowsOf(devices.answer)} close=${() => setForm(false)} done=${done} />`}
    ${config && html`<${ConfigForm} config=${config} close=${() => setConfig(undefined)} done=${done} />`}
    ${removing && html`<${Dialog} title=${`Remove the intent ${removing}`} close=${() => setRemoving('')}>
      <${Plan} change=${{ remove: removing }} verb="Remove" apply=${() => send('DELETE', inDomain(domain, 'int', 'intents', removing))} done=${done} /><//>`}
  </div>`;
}

function Service({ ask, done }) {
  const [error, setError] = useState(undefined);
  const running = ask.answer?.running;
  const change = async () => {
    setError(undefined);
    await attempt(() => send('POST', inDomain(store.state.value.domain, 'int', 'service'), { running: !running }), setError);
    done();
  };
  return html`<span class="service"><i class=${running ? 'live on' : 'live'}></i>${ask.answer ? (running ? `service runs${ask.answer.pid ? `, process ${ask.answer.pid}` : ''}` : 'service does not run') : 'service'}
    ${ask.answer && html`<button onClick=${change}>${running ? 'Stop' : 'Start'}</button>`}</span><${Problem} error=${error ?? ask.error} /><${TokenDialog} />`;
}

const sliceText = (s = {}) => s.expr || ['proto', 'src', 'sport', 'dst', 'dport', 'dscp'].filter((k) => s[k] !== undefined && s[k] !== '' && !(Array.isArray(s[k]) && !s[k].length))
  .map((k) => `${k} ${[].concat(s[k]).join(', ')}`).join(' · ') || 'all TCP and UDP';

function Intents({ rows, asked, remove }) {
  if (!rows.length) return asked ? html`<p class="empty">There is none. An intent says what to observe, such as web traffic, 1 packet in 10.</p>` : null;
  const columns = [
    { name: 'name', of: (r) => html`<b>${r.name}</b>` },
    { name: 'traffic', of: (r) => html`<code>${sliceText(r.slice)}</code>`, class: 'wrap' },
    { name: 'states', of: (r) => (r.states ?? []).join(', ') || 'default', class: 'wrap' },
    { name: 'mode', of: (r) => r.mode || 'md' },
    { name: 'one in', number: true, of: (r) => r.sample || 1 },
    { name: 'priority', number: true, of: (r) => r.priority ?? 0 },
    { name: 'ends', of: (r) => (r.expires && !r.expires.startsWith('0001') ? html`<time>${r.expires.slice(0, 16).replace('T', ' ')}</time>` : 'never') },
    { name: 'state', of: (r) => html`<${IntentState} row=${r} />`, class: 'wrap' },
    { name: 'remove', of: (r) => html`<button class="quiet" onClick=${() => remove(r.name)} aria-label=${`Remove the intent ${r.name}`}>Remove</button>` },
  ];
  return html`<${Table} caption="Intents" columns=${columns} rows=${rows} keyOf=${(r) => r.name} />`;
}

function IntentState({ row }) {
  const { state = 'pending', devices = [], why = [] } = row.status ?? {};
  return html`<span class=${`tag ${state}`}>${state}</span> <span class="muted">${[devices.length ? `on ${devices.join(', ')}` : '', ...why].filter(Boolean).join('; ')}</span>`;
}

function Devices({ rows, asked }) {
  if (!rows.length) return asked ? html`<p class="empty">No device that can speak INT is known. Say what the INT domain is made of: <code>radar int topology set --attached</code>, or <code>--lab LAB</code>, or a file.</p>` : null;
  const columns = [
    { name: 'device', of: (r) => html`<b>${r.name}</b>` },
    { name: 'driver', of: (r) => r.driver },
    { name: 'ports', of: (r) => html`<${Ports} ports=${r.ports} />`, class: 'wrap' },
    { name: 'can', of: (r) => abilitiesText(r.abilities), class: 'wrap' },
    { name: 'state', of: (r) => html`<span class=${`tag ${r.reachable === false ? 'lost' : ''}`}>${r.reachable === false ? 'not reached' : r.state ?? 'reached'}</span>` },
    { name: 'entries', number: true, of: (r) => count(r.entries) },
    { name: 'notes', of: (r) => [...(r.notes ?? []), r.error].filter(Boolean).join('; '), class: 'wrap' },
  ];
  return html`<${Table} caption="Devices" columns=${columns} rows=${rows} keyOf=${(r) => r.name} />`;
}

function Ports({ ports }) {
  return (ports ?? []).map((p) => html`<span class=${`tag ${p.role}`} title=${p.role === 'edge' ? 'source for what comes in, sink for what leaves' : ''}>${p.name} ${p.role || 'none'}</span> `);
}

function abilitiesText(a) {
  if (!a) return '–';
  return [(a.modes ?? []).join(', '), a.sampling && 'sampling', a.expressions && 'expressions', a.max_entries && `${a.max_entries} entries`].filter(Boolean).join(' · ');
}

/** What holds for all devices. */
function Settings({ ask, edit }) {
  const c = ask.answer;
  if (!c) return html`<${Problem} error=${ask.error} />`;
  return html`<${Facts} facts=${[['reports go to', c.collector || 'nobody'], ['mark', c.mark || 'default'], ['report version', c.report || 'default'], ['domain id', c.domain_id || undefined]]} />
    <button onClick=${() => edit(c)}>Change</button>`;
}

/** What happened to intents, devices and the service, the newest first. */
function Events({ rows }) {
  void store.packetsChanged.value;
  const others = store.events.list().filter((e) => !['device', 'intent', 'service'].includes(e.kind)).map((e) => ({ ...e, time: new Date(e.t_ns / 1e6).toISOString() }));
  const all = [...rows, ...others].sort((a, b) => (a.time < b.time ? 1 : -1)).slice(0, 50);
  if (!all.length) return html`<p class="empty">Nothing has happened yet.</p>`;
  return html`<ol class="events" aria-live="polite">${all.map((e) => html`<li><time>${clock(e.time).slice(0, 8)}</time> <span class="tag">${e.kind}</span> ${e.of && html`<b>${e.of}</b>`} ${e.text}</li>`)}</ol>`;
}
