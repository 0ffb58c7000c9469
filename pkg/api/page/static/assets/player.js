// SPDX-License-Identifier: Apache-2.0
// What is played on the topology: live packets, slowed for eyes, or the time machine.

import { signal } from './lib/signals-core/signals-core.js';
import { Machine } from './machine.js';
import { journeyOf, spread, timeOf, timeText } from './journey.js';
import * as store from './store.js';
import { get, inDomain } from './api.js';

const mostLive = 400; // packets drawn at once
const liveLasts = 1400; // ms
const liveLink = 230; // ms, for each link at least
const mostPackets = 5000;

export const machine = new Machine();
export const loaded = signal({ packets: 0, lost: 0, loading: false, error: '' });
export const playing = signal(false);
export const now = signal(0); // where the machine is; set a few times a second
export const notShown = signal(0); // live packets for which there was no room

/** @type {{journey: import('./journey.js').Journey, begun: number}[]} */
let live = [];

/** Takes live packets, until the returned function is called. */
export function startLive() {
  return store.onPacket((journey) => {
    if (store.state.value.mode !== 'live' || document.hidden) return;
    if (live.length >= mostLive) {
      notShown.value++;
      return;
    }
    // Packets of a batch do not all begin in one frame.
    live.push({ journey: spread(journey, liveLasts, liveLink), begun: performance.now() + Math.random() * 300 });
  });
}

/** Loads packets into the time machine, and goes to a moment: that of the address, or the first packet's. */
export async function loadMachine(more = {}, at = undefined) {
  loaded.value = { ...loaded.value, loading: true, error: '' };
  try {
    const answer = await get(inDomain(store.state.value.domain, 'packets'), store.query({ limit: mostPackets, ...more }));
    setPackets(answer.rows ?? []);
    const wanted = at ?? (store.state.value.t ? timeOf(store.state.value.t, store.epoch) : machine.first);
    seek(wanted);
  } catch (error) {
    loaded.value = { packets: 0, lost: 0, loading: false, error: error.text ?? String(error) };
  }
}

/** Puts records into the machine. */
export function setPackets(records) {
  machine.load(records.slice(0, 10000).map((r) => journeyOf(r, store.epoch)));
  loaded.value = { packets: machine.journeys.length, lost: machine.journeys.filter((j) => j.falls.length).length, loading: false, error: '' };
}

/** Goes to the time machine, with what the filter selects. */
export async function enterMachine(more, at) {
  live = [];
  playing.value = false;
  store.go({ mode: 'machine' });
  await loadMachine(more, at);
}

/** Shows one packet in the time machine, with all that was under way near it. */
export async function visit(record) {
  const journey = journeyOf(record, store.epoch);
  const margin = Math.max(2e6, (journey.end - journey.start) / 2);
  const time = (t) => isoOf(t);
  store.go({ view: 'topology', sel: `packet:${record.id}`, mode: 'machine' });
  live = [];
  playing.value = false;
  await loadMachine({ since: time(journey.start - margin), until: time(journey.end + margin) }, journey.start);
  if (!machine.journeys.some((j) => j.id === record.id)) {
    setPackets([record, ...machine.journeys.map((j) => j.record)].slice(0, mostPackets));
  }
  seek(journey.falls.length ? journey.falls[0].t : journey.start);
}

/** A time of the page as RFC 3339, to the nanosecond. */
export function isoOf(t) {
  const [seconds, nanos] = timeText(t, store.epoch).split('.');
  return `${new Date(Number(seconds) * 1000).toISOString().slice(0, 19)}.${nanos}Z`;
}

/** Back to what happens now. */
export function goLive() {
  playing.value = false;
  store.go({ mode: 'live', t: '' });
}

/** Moves the machine to t. */
export function seek(t) {
  machine.t = Math.min(Math.max(t, machine.first), machine.last);
  now.value = machine.t;
  if (machine.events.length) store.go({ t: timeText(machine.t, store.epoch) });
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
    now.value = machine.t;
  }
  const hold = fallLasts * 1e6 * speed;
  return machine.active(machine.t, hold).map((journey) => ({ journey, t: machine.t, ago: (t) => (machine.t - t) / 1e6 / speed }));
}

let shownAt = 0;

/** How long a lost packet is seen to fall, in ms. */
export const fallLasts = 1100;

function liveFrame(wall) {
  live = live.filter((l) => wall - l.begun < l.journey.end + (l.journey.falls.length ? fallLasts : 0));
  return live.filter((l) => wall >= l.begun).map(({ journey, begun }) => ({ journey, t: wall - begun, ago: (t) => wall - begun - t }));
}
