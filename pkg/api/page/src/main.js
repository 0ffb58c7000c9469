// SPDX-License-Identifier: Apache-2.0
// Starts the page: what is asked of the server at first and from time to time, the frame around the views, the keyboard.

import { render } from './lib/preact/preact.js';
import { effect, computed } from './lib/signals-core/signals-core.js';
import { addStyles } from './styles.js';
import { html } from './ui.js';
import { get, tokens, unanswered } from './api.js';
import { followDomain } from './follow.js';
import { Header, Nav, viewNames } from './header.js';
import { TopologyView, scene } from './view-topology.js';
import { FlowsView, LossesView, PacketsView, PathsView } from './views.js';
import { IntView } from './int-view.js';
import { TokenDialog, tokenAsked } from './token.js';
import { Help } from './help.js';
import { views } from './url.js';
import * as health from './health.js';
import * as store from './store.js';
import * as player from './player.js';

// What the tests in a browser look at: the bundle is a script whose exports are `radar`.
export { health, store, player };
export { listen } from './api.js';
export { scene } from './view-topology.js';
export { placeOfFall } from './dots.js';
export { colours } from './theme.js';

const shown = { topology: TopologyView, packets: PacketsView, flows: FlowsView, paths: PathsView, losses: LossesView, int: IntView };

function Page() {
  const { view, domain } = store.state.value;
  const View = shown[view];
  return html`<a class="sr skip" href="#content" onClick=${(e) => { e.preventDefault(); document.getElementById('content').focus(); }}>To the content</a>
    <${Header} /><${Bar} />
    <main id="content" tabindex="-1" class=${view}>${domain ? html`<${View} key=${`${view} ${domain}`} />` : store.server.value ? html`<${NoDomain} />` : html`<${Asking} />`}</main>
    <${Nav} />${store.help.value && html`<${Help} />`}${view !== 'int' && html`<${TokenDialog} />`}`;
}

/** What is wrong with all that is shown, below the header. */
function Bar() {
  const troubles = health.trouble.value;
  return html`${troubles.map((t) => html`<p key=${t.kind} class=${`bar problem trouble ${t.kind}`} role="alert">${t.text}</p>`)}<${Rest} quiet=${troubles.length > 0} />`;
}

/** What is wrong with what the user did last, and, unless more is wrong, with the connection. */
function Rest({ quiet }) {
  const problem = store.problem.value;
  if (problem) return html`<p class="bar problem" role="alert">${problem.text ?? String(problem)} <button class="quiet" aria-label="Close" onClick=${() => { store.problem.value = undefined; }}>✕</button></p>`;
  if (quiet) return null;
  if (unanswered.value) return html`<p class="bar problem" role="alert">Reconnecting: ${unanswered.value}</p>`;
  if (store.missed.value) return html`<p class="bar">This page was too slow for ${store.missed.value} events. <button class="quiet" aria-label="Close" onClick=${() => { store.missed.value = 0; }}>✕</button></p>`;
  return null;
}

function Asking() {
  return html`<div class="empty page-empty"><h1>radar</h1><p>Asking radar serve which domains there are…</p></div>`;
}

function NoDomain() {
  return html`<div class="empty page-empty"><h1>No domain is attached</h1><p>Attach radar to nodes, and this page shows them:</p>
    <pre>radar lab up bottleneck\nradar attach -d --lab bottleneck</pre></div>`;
}

/** Reports whether the request itself is wrong, so that it will never have an answer. */
const isFinal = (error) => error.status >= 400 && error.status < 500;

/** Asks for the server and its domains, and chooses one. */
async function begin() {
  try {
    const [server, domains] = await Promise.all([get('/server'), get('/domains')]);
    store.server.value = server;
    store.domains.value = domains;
    const names = store.domains.value.map((d) => d.name);
    const { domain } = store.state.value;
    if (!domain && names.length) store.go({ domain: names.includes(server.default_domain) ? server.default_domain : names[0] });
    if (!names.length) setTimeout(begin, 3000);
    store.problem.value = undefined;
  } catch (error) {
    store.problem.value = error;
    if (error.status === 401) tokenAsked().then(begin); // from elsewhere reading takes it, too
    else if (!isFinal(error)) setTimeout(begin, 3000);
  }
}

const followedKey = computed(() => {
  const { domain, filter, flow } = store.state.value;
  return JSON.stringify([domain, filter, flow, tokens.value]);
});

let lastDomain;
effect(() => {
  const [domain, filter, flow] = JSON.parse(followedKey.value);
  if (!domain) return undefined;
  if (lastDomain !== undefined && lastDomain !== domain) store.forget();
  lastDomain = domain;
  return followDomain(domain, filter, flow);
});

const typing = (e) => e.target.closest?.('input:not([type=range]), select, textarea, dialog') || e.ctrlKey || e.metaKey || e.altKey;

const actions = {
  ' ': () => player.toggle(), ArrowRight: () => inMachine(() => player.step(1)), ArrowLeft: () => inMachine(() => player.step(-1)),
  '[': () => speed(0.1), ']': () => speed(10), l: () => player.goLive(), '/': () => document.getElementById('filter')?.focus(),
  f: () => scene?.fit(), '+': () => scene?.zoom(1.3), '-': () => scene?.zoom(1 / 1.3), '?': () => { store.help.value = true; },
  t: () => store.setTheme(store.theme.value === 'dark' ? 'light' : 'dark'), Escape: () => store.go({ sel: '' }),
};

const inMachine = (what) => store.state.value.mode === 'machine' && what();
const onDrawing = [' ', 'ArrowRight', 'ArrowLeft']; // elsewhere nobody sees what they do

function speed(factor) {
  const next = Math.min(1, Math.max(1e-7, store.state.value.speed * factor));
  store.go({ speed: Number(next.toPrecision(3)) });
}

document.addEventListener('keydown', (e) => {
  if (typing(e) || e.shiftKey && e.key.startsWith('Arrow')) return;
  const number = Number(e.key);
  if (number >= 1 && number <= views.length) store.go({ view: views[number - 1] });
  else if (onDrawing.includes(e.key) && store.state.value.view !== 'topology') return;
  else if (!actions[e.key] || (e.key === ' ' && e.target.closest?.('button:not(.to-machine[aria-pressed=true]), a, summary, tr'))) return;
  else actions[e.key]();
  e.preventDefault();
});

effect(() => {
  const { view, domain } = store.state.value;
  document.title = `${viewNames[view]}${domain ? ` · ${domain}` : ''} · radar`;
});

addStyles();
store.startTheme();
const place = document.getElementById('page');
place.replaceChildren(); // the loader may have written there that it tries again
render(html`<${Page} />`, place);
begin();
