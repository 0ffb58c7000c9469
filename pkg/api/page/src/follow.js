// SPDX-License-Identifier: Apache-2.0
// Follows one domain: its topology again and again, its events as they come.

import { get, inDomain, listen } from './api.js';
import { flowFilter } from './url.js';
import * as health from './health.js';
import * as store from './store.js';

const topologyEvery = 10000;
const answersLast = 1200; // ms, a little more than the server gives the same answer for
const changing = ['attached', 'detached', 'node_came', 'node_went']; // kinds of events after which the drawing is another

/** @returns {() => void} that ends it */
export function followDomain(domain, filter, flow) {
  const stop = new AbortController();
  const query = { topic: 'packet,loss,load,event', ...(flow ? flowFilter(flow, filter) : { filter }) };
  let refused; // what the stream has ended with
  const stream = () => {
    refused = undefined;
    listen(inDomain(domain, 'events'), query, { ...on, refused: (error) => { refused = error; on.refused(error); } }, stop.signal);
  };
  const topology = topologyOf(domain, stop.signal, () => refused?.status === 404 && stream()); // the domain has come back
  const watch = new health.Watch(() => performance.now() / 1000);
  const looking = setInterval(() => (document.hidden ? watch.begin() : watch.look()), 1000);
  const on = listener(watch, topology);
  topology(0);
  stream();
  return () => {
    clearInterval(looking);
    stop.abort();
  };
}

/** Asks for the topology, again and again. The returned function asks after so many milliseconds. */
function topologyOf(domain, stopped, there) {
  let timer;
  let last = new AbortController(); // of the question that is under way
  const ask = async () => {
    last.abort();
    last = new AbortController();
    const signal = AbortSignal.any([stopped, last.signal]);
    try {
      store.setTopology(await get(inDomain(domain, 'topology'), { load: true }, signal));
      health.detached.value = '';
      there();
      if (store.problem.value?.of === 'topology') store.problem.value = undefined;
    } catch (error) {
      if (error.name === 'AbortError') return;
      if (health.notSaid(error)) store.problem.value = Object.assign(error, { of: 'topology' });
    }
    later(topologyEvery);
    store.domains.value = await get('/domains', undefined, signal).catch(() => store.domains.value); // others come and go
  };
  const later = (after) => {
    clearTimeout(timer);
    if (!stopped.aborted) timer = setTimeout(ask, after);
  };
  stopped.addEventListener('abort', () => clearTimeout(timer));
  return later;
}

/** What becomes of the stream, and of what comes on it. */
function listener(watch, topology) {
  const connected = (value) => {
    watch.begin();
    health.connected.value = value;
  };
  return {
    open: () => connected({ ok: true, text: '' }),
    // One interruption is over at once, and says nothing: each container that starts makes one.
    closed: (error, tries) => connected({ ok: false, text: tries > 1 ? error.text : '' }),
    refused: (error) => connected({ ok: false, text: error.text, final: true }),
    event: (name, data) => {
      store.apply(name, data);
      if (name === 'load') watch.hear();
      if (name !== 'event' || !changing.includes(data.kind)) return;
      if (data.kind === 'detached') {
        watch.begin();
        health.detached.value = data.text;
      }
      topology(answersLast); // what has come or gone is drawn at once
    },
  };
}
