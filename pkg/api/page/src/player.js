// SPDX-License-Identifier: Apache-2.0
// What is played on the topology: live packets, slowed for eyes, or the time machine.

import { computed, effect, signal, untracked } from './lib/signals-core/signals-core.js';
import { Machine } from './machine.js';
import { Past } from './past.js';
import { isoOf as textOf, journeyOf, sinceAt, spread, timeOf, timeText } from './journey.js';
import { notSaid } from './health.js';
import * as store from './store.js';
import { get, inDomain } from './api.js';

const mostLive = 300; // packets drawn at once
const liveRate = { arrived: 40, lost: 12 }; // packets a second that begin to move
const liveLasts = 1400; // ms
const liveLink = 230; // ms, for each link at least
const mostPackets = 5000; // of an answer
const mostLoaded = 10000;

export const machine = new Machine();
export const loaded = signal({ packets: 0, lost: 0, loading: false, error: '', end: 0 }); // end: -1 where nothing earlier is known, 1 where nothing later is
export const playing = signal(false);
export const now = signal(0); // where the machine is; set a few times a second

/** @type {{journey: import('./journey.js').Journey, begun: number}[]} */
let live = [];
const begunAt = { arrived: -1e9, lost: -1e9 };

/** Takes live packets, until the returned function is called. */
export function startLive() {
  return store.onPacket((journey) => {
    if (store.state.value.mode !== 'live' || document.hidden) return;
    const kind = journey.falls.length ? 'lost' : 'arrived';
    const wall = performance.now();
    if (live.length >= mostLive || wall - begunAt[kind] < 1000 / liveRate[kind]) return;
    begunAt[kind] = wall;
    live.push({ journey: spread(journey, liveLasts, liveLink), begun: wall });
  });
}

/** Loads packets into the time machine, and goes to a moment: that of the address, or the first packet's. */
export async function loadMachine(more = {}, at = undefined) {
  loading?.abort();
  if (selected() !== loadedOf) longest = 0;
  loadedOf = selected();
  const { signal: stopped } = loading = new AbortController();
  loaded.value = { ...loaded.value, loading: true, error: '' };
  const { t, since, until } = store.state.value;
  const wanted = at ?? (t ? timeOf(t, store.epoch) : undefined);
  const range = wanted === undefined ? { since, until } : { since: sinceAt(since, wanted, store.epoch), until: until || isoOf(wanted + ahead) };
  try {
    const answer = await get(inDomain(store.state.value.domain, 'packets'), store.query({ limit: mostPackets, ...range, ...more }), stopped);
    if (stopped.aborted) return; // something else was asked for meanwhile
    setPackets(answer.rows ?? []);
    seek(wanted ?? machine.first);
  } catch (error) {
    if (!stopped.aborted) loaded.value = { packets: 0, lost: 0, loading: false, error: notSaid(error) ? error.text ?? String(error) : '', end: 0 };
  }
}

/** The range of time that is chosen. */
const range = () => `${store.state.value.since} ${store.state.value.until}`;

/** Whether nothing was found beyond that end, in the range that is chosen. */
const wasEnd = (direction) => loaded.value.end === direction && loaded.value.range === range();

/** Whether nothing will be found there, either: later packets may come to a domain that runs. */
export const isAtEnd = (direction) => wasEnd(direction) && (direction < 0 || store.whole.value !== '');

/** What there is to say of that end: empty if nobody has looked. */
export function saidOfEnd(direction) {
  if (!wasEnd(direction)) return '';
  const { since, until } = store.state.value;
  return `no ${direction < 0 ? 'earlier' : 'later'} packets are known${(direction < 0 ? since : until) ? ' in the chosen range of time' : isAtEnd(direction) ? '' : ' yet'}`;
}

/**
 * Goes beyond what is loaded: to the last event before its first packet, or to the first after its last one. Packets at the
 * seam are loaded again, since those that were under way belong to both.
 */
export async function goBeyond(direction) {
  if (!machine.journeys.length || loaded.value.loading || isAtEnd(direction)) return;
  const [first, last] = [machine.first, machine.journeys.at(-1).start];
  const { signal: stopped } = going = loading = new AbortController();
  loaded.value = { ...loaded.value, loading: true };
  try {
    const rows = await (direction > 0 ? laterThan(first, last, stopped) : earlierThan(first, last, stopped));
    if (stopped.aborted) return;
    if (!rows) {
      loaded.value = { ...loaded.value, loading: false, end: direction, range: range() };
      return;
    }
    const { t } = machine;
    setPackets(withUnderWay(rows, direction));
    seek(direction > 0 ? machine.next(Math.max(t, last)) : machine.previous(first));
  } catch (error) {
    if (!stopped.aborted) loaded.value = { ...loaded.value, loading: false, error: notSaid(error) ? error.text ?? String(error) : '' };
  }
}

const rowsOf = async (more, stopped) => (await get(inDomain(store.state.value.domain, 'packets'), store.query({ limit: mostPackets, ...more }), stopped)).rows ?? [];
const sentAt = (record) => journeyOf(record, store.epoch).start;

/**
 * Asks with an overlap, in ns, that becomes half as long while the answer is full, and nearly all of it is loaded already or
 * beyond the other end. It is undefined where nothing else is known.
 */
async function beyond(overlap, ask, isNew) {
  for (let by = Math.max(overlap, 1); ; by = by < 1000 ? 0 : Math.floor(by / 2)) {
    const rows = await ask(by);
    const fresh = rows.filter(isNew).length;
    if (fresh > mostPackets / 10 || fresh && (!by || rows.length < mostPackets)) return rows;
    if (!by || rows.length < mostPackets) return undefined;
  }
}

/**
 * Recordings have packets as they ended. So what is not loaded yet ended before the first that was received, and may have
 * been sent until then. A few more are looked at: of a packet whose end nobody saw the record comes later than that.
 */
function earlierThan(first, last, stopped) {
  const known = knownIDs();
  const since = sinceAt(store.state.value.since, first, store.epoch);
  let ended = first;
  for (const record of received.slice(0, atSeam)) ended = Math.max(ended, journeyOf(record, store.epoch).end);
  return beyond(ended - first, (by) => rowsOf({ since, until: isoOf(first + by + 1) }, stopped), (r) => !known.has(r.id) && sentAt(r) <= last);
}

/** One that was sent before the last may have ended behind it: as long before as the longest was under way. */
function laterThan(first, last, stopped) {
  const known = knownIDs();
  const { until } = store.state.value;
  return beyond(longest, (by) => rowsOf({ since: isoOf(last - by), until, oldest: true }, stopped), (r) => !known.has(r.id) && sentAt(r) >= first);
}

const knownIDs = () => new Set(received.map((r) => r.id));

/** Adds the packets that are loaded and were under way while those of rows were sent: on the side where they ended. */
function withUnderWay(rows, direction) {
  const has = new Set(rows.map((r) => r.id));
  let [from, to] = [Infinity, -Infinity];
  for (const r of rows) [from, to] = [Math.min(from, sentAt(r)), Math.max(to, sentAt(r))];
  const under = machine.journeys.filter((j) => !has.has(j.id) && j.start <= to && j.end >= from);
  const most = mostLoaded - mostPackets;
  const records = (direction > 0 ? under.slice(-most) : under.slice(0, most)).map((j) => j.record);
  return direction > 0 ? [...records, ...rows] : [...rows, ...records];
}

const atSeam = 100; // packets
let received = []; // the records that are loaded, as they came
let longest = 0; // ns that a packet was under way, of all that were loaded of what is selected

let loading;
let going; // what goes beyond

/** Stops loading: what it was for is gone. */
function stop() {
  loading?.abort();
  if (loaded.peek().loading) loaded.value = { ...loaded.peek(), loading: false };
}

// Who leaves the time machine, or its domain, has no use for what comes.
const whereTo = computed(() => JSON.stringify([store.state.value.domain, store.state.value.mode]));
effect(() => {
  void whereTo.value;
  untracked(stop);
});

const ahead = 5e7; // ns behind the wanted moment that are loaded, too

let loadedOf = ''; // what was selected then
let written; // the moment that the address has got from here
const selected = () => JSON.stringify([store.state.value.domain, store.state.value.filter, store.state.value.flow]);

// Back and forward change the address: the machine goes where it says.
effect(() => {
  const { mode, view, t } = store.state.value;
  if (mode === 'machine' && view === 'topology' && t && (t !== written || selected() !== loadedOf)) queueMicrotask(arrive);
});

function arrive() {
  const { t } = store.state.value;
  if (!t || !machine.events.length) return;
  if (loaded.value.loading) {
    if (loading !== going) return;
    stop(); // who goes elsewhere meanwhile stays there
  }
  playing.value = false;
  const at = timeOf(t, store.epoch);
  if (selected() === loadedOf && at >= machine.first && at <= machine.last) seek(at);
  else loadMachine();
}

/** Puts records into the machine. */
export function setPackets(records) {
  received = records.slice(0, mostLoaded);
  machine.load(received.map((r) => journeyOf(r, store.epoch)));
  longest = Math.max(longest, machine.longest);
  store.drawPassed(records);
  count();
  loaded.value = { packets: machine.journeys.length, lost: machine.journeys.filter((j) => j.falls.length).length, loading: false, error: '', end: 0 };
}

/** Counts what is loaded on the links that are drawn. */
function count() {
  store.past.value = new Past(machine.journeys, store.graph, machine.first, () => machine.t);
}

// Links and nodes come and go: packets that are loaded are counted on those of now.
effect(() => {
  void store.graphChanged.value;
  if (store.past.peek() && machine.journeys.length) count();
});

/** Says that the machine is at another moment. */
function told() {
  now.value = machine.t;
  store.moments.value++;
}

/** Goes to the time machine, with what the filter selects. */
export async function enterMachine(more, at) {
  live = [];
  playing.value = false;
  store.go({ mode: 'machine', t: '' });
  await loadMachine(more, at);
}

/** Follows a flow in the time machine: on the drawing, where it is seen. */
export async function follow(flow) {
  store.go({ view: 'topology', flow, sel: `flow:${flow}` });
  await enterMachine();
}

/** Follows all flows again. */
export function unfollow() {
  store.go({ flow: '' });
  if (store.state.value.mode === 'machine') loadMachine();
}

// What is loaded with a packet: before it, those that may wait where it comes to.
const near = { before: 1e8, after: 1e7 };

/** Shows one packet in the time machine, with all that was under way near it. */
export async function visit(record) {
  const journey = journeyOf(record, store.epoch);
  store.go({ view: 'topology', sel: `packet:${record.id}`, mode: 'machine' });
  live = [];
  playing.value = false;
  await loadMachine({ since: isoOf(journey.start - near.before), until: isoOf(journey.end + near.after) }, journey.start);
  if (!machine.journeys.some((j) => j.id === record.id)) {
    setPackets([record, ...machine.journeys.map((j) => j.record)].slice(0, mostPackets));
  }
  seek(journey.falls.length ? journey.falls[0].t : journey.start);
}

/** A time of the page as RFC 3339, to the nanosecond. */
export const isoOf = (t) => textOf(t, store.epoch);

/** Back to what happens now. */
export function goLive() {
  playing.value = false;
  store.go({ mode: 'live', t: '' });
}

/** Moves the machine to t. */
export function seek(t) {
  machine.t = Math.min(Math.max(t, machine.first), machine.last);
  told();
  written = timeText(machine.t, store.epoch);
  if (machine.events.length) store.go({ t: written });
}

export function toggle() {
  if (store.state.value.mode === 'live') {
    enterMachine();
    return;
  }
  if (!playing.value && machine.t >= machine.last) seek(machine.first);
  playing.value = !playing.value;
  if (!playing.value) seek(machine.t);
}

export function step(direction) {
  playing.value = false;
  if (machine.t === (direction > 0 ? machine.last : machine.first)) return goBeyond(direction);
  seek(direction > 0 ? machine.next(machine.t) : machine.previous(machine.t));
}

/**
 * Lets time pass and returns what is to be drawn: journeys with the time at which to look at them, and how
 * long ago, in ms of the wall, their losses were.
 */
export function frame(passed, wall) {
  if (store.state.value.mode === 'live') return liveFrame(wall);
  const { speed } = store.state.value;
  if (playing.value && !machine.advance(passed * 1e6, speed)) {
    playing.value = false;
    seek(machine.t);
  }
  if (playing.value && wall - shownAt > 120) {
    shownAt = wall;
    told();
  }
  if (playing.value && wall - writtenAt > 1000) { // lists and panels follow
    writtenAt = wall;
    seek(machine.t);
  }
  const hold = fallLasts * 1e6 * speed;
  return machine.active(machine.t, hold).map((journey) => ({ journey, t: machine.t, ago: (t) => (machine.t - t) / 1e6 / speed }));
}

let shownAt = 0;
let writtenAt = 0;

/** How long a lost packet is seen to fall, in ms. */
export const fallLasts = 1100;

function liveFrame(wall) {
  live = live.filter((l) => wall - l.begun < l.journey.end + (l.journey.falls.length ? fallLasts : 0));
  return live.filter((l) => wall >= l.begun).map(({ journey, begun }) => ({ journey, t: wall - begun, ago: (t) => wall - begun - t }));
}
