// SPDX-License-Identifier: Apache-2.0
// What the page knows. Everything that comes in by itself goes through apply, and is kept in fixed space.

import { signal, computed, batch } from './lib/signals-core/signals-core.js';
import { BoundedMap, Ring, Series } from './ring.js';
import { graphOf, directions, passedBy } from './model.js';
import { place } from './layout.js';
import { isoOf, journeyOf, parseTime, sinceAt, timeOf } from './journey.js';
import * as health from './health.js';
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

/** What the time machine has loaded, and where it is: see past.js. While it is live there is none. */
export const past = signal(undefined);
export const moments = signal(0); // counts up when the time machine is at another moment

/** Whether what is shown is of the time machine's moment. */
const inPast = () => state.value.mode === 'machine' && state.value.view === 'topology' && past.value !== undefined;

/** What the lists and the drawing show: of the time machine's moment, or undefined of now. */
export const shownPast = computed(() => (inPast() ? past.value : undefined));

/** The time machine's moment, as the address has it. Live there is none. */
const moment = computed(() => (state.value.mode === 'machine' && state.value.t ? timeOf(state.value.t, epoch) : undefined));

/**
 * What lists and panels are of in the time machine: the packets that were sent until its moment. Beside the drawing these
 * are the packets that it has. Live it is undefined. The server leaves out until itself, so that is a nanosecond later.
 * @type {import('./lib/signals-core/signals-core.js').ReadonlySignal<{at: string, since: string, until: string}|undefined>}
 */
export const pastRange = computed(() => {
  const t = moment.value;
  if (t === undefined) return undefined;
  const drawn = shownPast.value;
  const since = drawn && drawn.first <= t ? isoOf(drawn.first, epoch) : sinceAt(state.value.since, t, epoch);
  return { at: isoOf(t, epoch), since, until: isoOf(t + 1, epoch) };
});

/** The filter parameters of the questions, from the address: of the time that is shown. @param {string} [flow] instead of the followed one */
export function query(more = {}, flow = state.value.flow) {
  const { filter } = state.value;
  const { since, until } = pastRange.value ?? state.value;
  return { since, until, ...(flow ? url.flowFilter(flow, filter) : { filter }), ...more };
}

/** What the drawing is shown on: the scene says it. */
let screen;

/**
 * Takes an answer of GET topology. Nodes stay where they are if none came or went. Where none is left, the last drawing
 * stays: the packets that passed it are still asked for.
 */
export function setTopology(answer) {
  batch(() => {
    topology.value = answer;
    if (answer.nodes?.length) {
      passed = passing = undefined;
      draw(answer);
    } else if (passing) drawPassed(passing);
    for (const row of directions(answer)) totals.set(row.id, { ...row, grew: hasGrown(row) });
  });
}

let passed; // what is drawn where no answer had nodes
let passing; // the packets that came before the first answer

/** Draws what packets have passed where no node is left: whoever comes then has no drawing. The first answer says whether. */
export function drawPassed(records) {
  passing = topology.value ? undefined : records;
  if (passing || topology.value.nodes?.length || graph.vertices.size && !passed) return;
  passed = passedBy(records, passed);
  draw(passed);
}

function draw(answer) {
  const next = graphOf(answer);
  const names = [...next.vertices.keys()].join('\n');
  if (names === [...graph.vertices.keys()].join('\n') && next.edges.length === graph.edges.length) keepPlaces(next);
  else place(next, screen);
  graph = next;
  graphChanged.value++;
}

/** What has all its packets at once, by its name: 'recording' or 'capture'; '' where more may come. */
export const whole = computed(() => {
  const source = domains.value.find((d) => d.name === state.value.domain)?.source;
  return ['capture', 'recording'].includes(source) ? source : '';
});

/** Whether packets have passed since the answer before, or at all if there was none. */
function hasGrown(row) {
  const before = totals.get(row.id);
  return (row.packets ?? 0) > (before && !whole.value ? before.packets ?? 0 : 0);
}

function keepPlaces(next) {
  for (const [id, vertex] of next.vertices) {
    const old = graph.vertices.get(id);
    vertex.x = old.x;
    vertex.y = old.y;
  }
}

/** Places the nodes anew, on a screen of this size. @param {{width: number, height: number}} on */
export function arrange(on) {
  screen = on;
  place(graph, screen);
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
  const said = JSON.stringify(load.notes ?? []);
  if (said !== JSON.stringify(health.notes.value)) health.notes.value = JSON.parse(said);
  if (health.detached.value) health.detached.value = '';
  for (const link of load.links ?? []) {
    const id = `${link.from} > ${link.to}`;
    series(linkSeries, id).push(time, {
      packets: link.packets / seconds, bps: link.bytes * 8 / seconds, p50: link.p50_ns, p99: link.p99_ns, queue: link.queue_p50_ns, lost: (link.lost ?? 0) / seconds,
    });
    addTotal(id, link);
  }
  for (const node of load.nodes ?? []) {
    series(nodeSeries, node.name).push(time, { packets: node.packets / seconds, p50: node.p50_ns, p99: node.p99_ns, lost: (node.lost ?? 0) / seconds });
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
    passed = passing = undefined;
    graph = graphOf(undefined);
    graphChanged.value++;
    tick.value = undefined;
    past.value = undefined;
    health.notes.value = [];
    health.detached.value = '';
    missed.value = 0;
    for (const map of [linkSeries, nodeSeries, totals]) map.clear();
    for (const ring of [recent, recentLost, events]) ring.clear();
    packetsChanged.value++;
  });
}

const reporters = ['reported', 'p4'];

/** Whether what is known of a link comes from switches that report: with the topology, not with load events. */
const isReported = (edge) => Boolean(edge) && [edge.a, edge.b].some((v) => reporters.includes(v.class));

/** Whether a series has a value of the newest second. */
const isFresh = (line) => Boolean(tick.value && !health.stale.value && line && tick.value.t_ns / 1e9 - line.time[(line.total - 1) % line.size] < 1.5);

/**
 * The load of a direction of a link: of the last second if there is one, else since attach. In the time machine it is of
 * the packets that are loaded, until its moment.
 */
export function loadOf(id) {
  if (shownPast.value) return shownPast.value.loadOf(id);
  const line = linkSeries.get(id);
  const total = totals.get(id);
  const fresh = isFresh(line);
  const now = tick.value && !health.stale.value ? 0 : undefined;
  const reported = !line && isReported(graph.byEnds.get(id)?.edge); // of these no load event tells
  return {
    bps: fresh ? line.last('bps') : reported ? undefined : now,
    packets: fresh ? line.last('packets') : now,
    p50: (fresh ? line.last('p50') : undefined) ?? total?.p50_ns,
    queue: (fresh ? line.last('queue') : undefined) ?? total?.queue_p50_ns,
    lost: total?.lost ?? 0,
    lostNow: fresh ? line.last('lost') ?? 0 : now,
    expired: total?.expired ?? 0,
    total: total?.packets ?? 0,
    known: Boolean(total),
    used: fresh ? line.last('packets') > 0 : (reported || !tick.value) && !health.stale.value && Boolean(total?.grew),
  };
}

/** What was lost inside a node, or at its ports, since attach; in the time machine until its moment. */
export function nodeLost(name) {
  if (shownPast.value) return shownPast.value.nodeLost(name);
  const load = graph.vertices.get(name)?.load;
  return (load?.lost ?? 0) + (load?.expired ?? 0);
}

/** How many of them each second. */
export function nodeLostNow(name) {
  const line = nodeSeries.get(name);
  return !shownPast.value && isFresh(line) ? line.last('lost') ?? 0 : 0;
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
