// SPDX-License-Identifier: Apache-2.0
// What the page knows. Everything that comes in by itself goes through apply, and is kept in fixed space.

import { signal, computed, batch } from './lib/signals-core/signals-core.js';
import { BoundedMap, Ring, Series } from './ring.js';
import { graphOf, directions } from './model.js';
import { place } from './layout.js';
import { journeyOf, parseTime } from './journey.js';
import * as url from './url.js';

const keptSeconds = 900; // of each time series
const keptSeries = 1500;
const keptPackets = 2000; // of the live stream
const keptEvents = 300;

/** The state that the address bears. */
export const state = signal(url.parse(globalThis.location?.hash ?? ''));
export const server = signal(undefined);
export const domains = signal([]);
export const topology = signal(undefined);
export const tick = signal(undefined); // the newest load event
export const connected = signal({ ok: false, text: '' }); // to the stream of events
export const problem = signal(undefined); // of what the user did last
export const theme = signal('dark');
export const help = signal(false);
export const missed = signal(0);
export const packetsChanged = signal(0); // counts up when the rings below change
export const followed = computed(() => state.value.flow);

/** @type {import('./model.js').Graph} */
export let graph = graphOf(undefined);
export const graphChanged = signal(0);

const columns = ['packets', 'bps', 'p50', 'p99', 'queue', 'lost'];
export const linkSeries = new BoundedMap(keptSeries);
export const nodeSeries = new BoundedMap(keptSeries);
export const recent = new Ring(keptPackets);
export const recentLost = new Ring(keptPackets);
export const events = new Ring(keptEvents);
export const totals = new BoundedMap(2 * keptSeries); // of links, since attach, by "FROM > TO"

/** A whole second that all times of the page are counted from: see journey.js. */
export let epoch = Math.floor(Date.now() / 1000);

/** Changes the state, and the address with it. A new view or selection is a step that "back" undoes. */
export function go(patch) {
  const before = state.value;
  const after = { ...before, ...patch };
  const address = url.format(after);
  if (address === url.format(before)) return;
  state.value = after;
  const step = after.view !== before.view || after.sel !== before.sel || after.domain !== before.domain;
  history[step ? 'pushState' : 'replaceState'](null, '', address);
}

globalThis.addEventListener?.('popstate', () => {
  state.value = url.parse(location.hash);
});
globalThis.addEventListener?.('hashchange', () => {
  if (url.format(state.value) !== location.hash) state.value = url.parse(location.hash);
});

/** The filter parameters of the questions, from the address. */
export function query(more = {}) {
  const { filter, since, until, flow } = state.value;
  return { filter, since, until, ...(flow ? url.flowFilter(flow) : {}), ...more };
}

/** Takes an answer of GET topology. Nodes stay where they are if none came or went. */
export function setTopology(answer, portrait) {
  batch(() => {
    topology.value = answer;
    const next = graphOf(answer);
    const names = [...next.vertices.keys()].join('\n');
    if (names === [...graph.vertices.keys()].join('\n') && next.edges.length === graph.edges.length) keepPlaces(next);
    else place(next, portrait);
    graph = next;
    for (const row of directions(answer)) totals.set(row.id, row);
    graphChanged.value++;
  });
}

function keepPlaces(next) {
  for (const [id, vertex] of next.vertices) {
    const old = graph.vertices.get(id);
    vertex.x = old.x;
    vertex.y = old.y;
  }
}

/** Places the nodes anew. */
export function arrange(portrait) {
  place(graph, portrait);
  graphChanged.value++;
}

const listeners = new Set();

/** Calls take for each packet of the stream, with its journey, until the returned function is called. */
export function onPacket(take) {
  listeners.add(take);
  return () => listeners.delete(take);
}

/** Takes an event of the stream: the page's one way in. @param {string} name @param {any} data */
export function apply(name, data) {
  if (name === 'load') applyLoad(data);
  else if (name === 'packet' || name === 'loss') applyPacket(name, data);
  else if (name === 'missed') missed.value += data.missed ?? 0;
  else if (name === 'event') {
    events.push(data);
    packetsChanged.value++;
  }
}

function applyLoad(load) {
  const seconds = (load.span_ns ?? 1e9) / 1e9;
  const time = load.t_ns / 1e9;
  for (const link of load.links ?? []) {
    const id = `${link.from} > ${link.to}`;
    series(linkSeries, id).push(time, {
      packets: link.packets / seconds, bps: link.bytes * 8 / seconds, p50: link.p50_ns, p99: link.p99_ns, queue: link.queue_p50_ns, lost: link.lost ?? 0,
    });
    addTotal(id, link);
  }
  for (const node of load.nodes ?? []) {
    series(nodeSeries, node.name).push(time, { packets: node.packets / seconds, p50: node.p50_ns, p99: node.p99_ns, lost: node.lost ?? 0 });
  }
  if (++ticks % 60 === 0) forgetOld(time);
  tick.value = load;
}

let ticks = 0;

/** Series of links and nodes of which nothing is known of the time that is kept: they are gone, or idle. */
function forgetOld(time) {
  for (const map of [linkSeries, nodeSeries]) {
    for (const [id, line] of map) {
      if (time - line.time[(line.total - 1) % line.size] > keptSeconds) map.delete(id);
    }
  }
}

function series(map, id) {
  let found = map.get(id);
  if (!found) {
    found = new Series(columns, keptSeconds);
    map.set(id, found);
  }
  return found;
}

function addTotal(id, link) {
  const total = totals.get(id);
  if (!total) return;
  total.packets = (total.packets ?? 0) + link.packets;
  total.lost = (total.lost ?? 0) + (link.lost ?? 0);
}

function applyPacket(name, record) {
  if (!record?.id || !parseTime(record.time)) return;
  (name === 'loss' ? recentLost : recent).push(record);
  if (!listeners.size) return;
  const journey = journeyOf(record, epoch);
  for (const take of listeners) take(journey);
  packetsChanged.value++;
}

/** Forgets what was known of a domain. */
export function forget() {
  batch(() => {
    topology.value = undefined;
    graph = graphOf(undefined);
    graphChanged.value++;
    tick.value = undefined;
    missed.value = 0;
    for (const map of [linkSeries, nodeSeries, totals]) map.clear();
    for (const ring of [recent, recentLost, events]) ring.clear();
    packetsChanged.value++;
  });
}

/** The load of a direction of a link: of the last second if there is one, else since attach. */
export function loadOf(id) {
  const line = linkSeries.get(id);
  const total = totals.get(id);
  const fresh = line && tick.value && tick.value.t_ns / 1e9 - line.time[(line.total - 1) % line.size] < 1.5;
  return {
    bps: fresh ? line.last('bps') : tick.value ? 0 : undefined,
    packets: fresh ? line.last('packets') : tick.value ? 0 : undefined,
    p50: (fresh ? line.last('p50') : undefined) ?? total?.p50_ns,
    queue: (fresh ? line.last('queue') : undefined) ?? total?.queue_p50_ns,
    lost: total?.lost ?? 0,
    expired: total?.expired ?? 0,
    total: total?.packets ?? 0,
    known: Boolean(total),
    used: fresh ? line.last('packets') > 0 : !tick.value && (total?.packets ?? 0) > 0,
  };
}

/** What was lost inside a node, or at its ports, since attach. */
export function nodeLost(name) {
  const load = graph.vertices.get(name)?.load;
  return (load?.lost ?? 0) + (load?.expired ?? 0);
}

const themeKey = 'radar.theme';

/** Dark or light as the user chose, else as the system says. */
export function startTheme() {
  const light = globalThis.matchMedia('(prefers-color-scheme: light)');
  const follow = () => showTheme(localStorage.getItem(themeKey) ?? (light.matches ? 'light' : 'dark'));
  light.addEventListener('change', follow);
  follow();
}

export function setTheme(name) {
  localStorage.setItem(themeKey, name);
  showTheme(name);
}

function showTheme(name) {
  document.documentElement.dataset.theme = name;
  theme.value = name === 'light' ? 'light' : 'dark';
}
