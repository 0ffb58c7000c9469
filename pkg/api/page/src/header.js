// SPDX-License-Identifier: Apache-2.0
// The head of the page: domain, views, filter, times.

import { html, IconButton, useEffect, useState } from './ui.js';
import { askToken } from './token.js';
import { flowTitle, views } from './url.js';
import * as store from './store.js';
import * as player from './player.js';

export const viewNames = { topology: 'Topology', packets: 'Packets', flows: 'Flows', paths: 'Paths', losses: 'Losses', int: 'INT' };
const lasts = [['10s', 'last 10 s'], ['1m', 'last minute'], ['10m', 'last 10 min'], ['1h', 'last hour']];

export function Header() {
  const { domain, flow } = store.state.value;
  const names = store.domains.value.map((d) => d.name);
  if (domain && !names.includes(domain)) names.push(domain);
  return html`<header class="head"><a class="brand" href="#/topology"><${Mark} />radar</a>
    <label class="domain"><span class="sr">Domain</span><select value=${domain} onChange=${(e) => store.go({ domain: e.target.value, sel: '', flow: '', mode: 'live', t: '' })}>
      ${!names.length && html`<option value="">no domain</option>`}${names.map((n) => html`<option value=${n}>${n}</option>`)}</select></label>
    <${Views} />
    <${Filter} />
    ${flow && html`<button class="chip" title="Follow all flows again" onClick=${player.unfollow}>${flowTitle(flow)} ✕</button>`}
    <span class="tools"><${IconButton} icon="key" label="The server's token, for changes" onClick=${askToken} />
      <${IconButton} icon="sun" label="Dark or light (t)" onClick=${() => store.setTheme(store.theme.value === 'dark' ? 'light' : 'dark')} />
      <button class="icon" aria-label="Help (?)" title="Help (?)" onClick=${() => { store.help.value = true; }}>?</button></span></header>`;
}

/** The mark of static/assets/icon.svg, which only the browser itself asks for: the page needs no further file. */
function Mark() {
  return html`<svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true"><circle cx="16" cy="16" r="14" fill="#0e141b" stroke="#4cc2ff" stroke-width="2" />
    <circle cx="16" cy="16" r="7.5" fill="none" stroke="#4cc2ff" stroke-opacity=".5" stroke-width="1.5" /><path d="M16 16L26 8" stroke="#4cc2ff" stroke-width="2.5" stroke-linecap="round" />
    <circle cx="16" cy="16" r="2.5" fill="#4cc2ff" /><circle cx="9.5" cy="20" r="2" fill="#ff7a45" /></svg>`;
}

function Views() {
  return html`<nav class="views" aria-label="Views"><${Links} /></nav>`;
}

function Links() {
  const { view } = store.state.value;
  return views.map((v) => html`<a key=${v} href="#" aria-current=${v === view ? 'page' : undefined}
    onClick=${(e) => { e.preventDefault(); store.go({ view: v }); }}>${viewNames[v]}</a>`);
}

/** The views again, at the lower edge of small screens. */
export function Nav() {
  return html`<nav class="views bottom" aria-label="Views, below"><${Links} /></nav>`;
}

function Filter() {
  const { filter, since, until } = store.state.value;
  const [text, setText] = useState(filter);
  useEffect(() => setText(filter), [filter]);
  const use = (e) => {
    e.preventDefault();
    store.go({ filter: text.trim() });
    if (store.state.value.mode === 'machine') player.loadMachine();
  };
  const range = (e) => {
    store.go({ since: e.target.value, until: '' });
    if (store.state.value.mode === 'machine') player.loadMachine();
  };
  const known = (!since || lasts.some(([v]) => v === since)) && !until;
  const whole = store.whole.value;
  return html`<form class="filter" role="search" onSubmit=${use}>
    <input id="filter" type="search" value=${text} placeholder="Filter: udp and dst port 53" aria-label="Filter, in tcpdump's language" spellcheck=${false} autocomplete="off" onInput=${(e) => setText(e.target.value)} onBlur=${use} />
    <select aria-label="Time range" value=${known ? since : 'own'} onChange=${range}>${[['', whole ? `the whole ${whole}` : 'since attach'], ...lasts].map(([v, name]) => html`<option value=${v}>${name}</option>`)}
      ${!known && html`<option value="own">${since || '…'} to ${until || 'now'}</option>`}</select></form>`;
}
