// SPDX-License-Identifier: Apache-2.0
// What the lists and marks say in the time machine: of the packets that are loaded, until its moment.

import { way } from './model.js';

/** Counts of one direction of a link, or of a node. */
class Counts {
  constructor() {
    this.passed = [];
    this.lost = [];
    this.links = []; // times on the link, and in the queue before it
    this.queues = [];
  }

  finish() {
    for (const list of [this.passed, this.lost, this.links, this.queues]) list.sort((a, b) => a - b);
    return this;
  }
}

export class Past {
  /**
   * @param {import('./journey.js').Journey[]} journeys @param {import('./model.js').Graph} graph
   * @param {number} first when the first of them was sent @param {() => number} now where the machine is
   */
  constructor(journeys, graph, first, now) {
    this.first = first;
    this.now = now;
    this.directions = new Map();
    this.nodes = new Map();
    for (const journey of journeys) this.add(journey, graph);
    for (const map of [this.directions, this.nodes]) map.forEach((counts) => counts.finish());
  }

  add(journey, graph) {
    for (const { kind, from, to, t0, t1, hop } of journey.segments) {
      if (kind === 'link') {
        const legs = way(graph, from.node, from.port, to.node, to.port);
        for (const leg of legs) {
          const counts = of(this.directions, idOf(leg));
          counts.passed.push(t1);
          // Over a hub nobody knows how long each half took, and of some reports nothing at all.
          if (legs.length === 1 && journey.record.hops[hop].link_ns !== undefined) counts.links.push(t1 - t0);
        }
      } else if (kind === 'queue') {
        const leg = graph.byPort.get(`${from.node}/${from.port}`);
        if (leg) of(this.directions, idOf(leg)).queues.push(t1 - t0);
      }
    }
    for (const fall of journey.falls) {
      const leg = fall.port !== undefined && fall.at !== 'node' ? graph.byPort.get(`${fall.node}/${fall.port}`) : undefined;
      (leg ? of(this.directions, idOf(leg)) : of(this.nodes, fall.node)).lost.push(fall.t);
    }
  }

  /** The load of a direction, as store.loadOf has it. Medians are of all that is loaded. */
  loadOf(id) {
    const counts = this.directions.get(id);
    const total = counts ? until(counts.passed, this.now()) : 0;
    return {
      bps: undefined, packets: undefined, p50: median(counts?.links), queue: median(counts?.queues), lost: counts ? until(counts.lost, this.now()) : 0, lostNow: 0,
      expired: 0, total, known: true, used: total > 0,
    };
  }

  /** How many were lost inside a node. */
  nodeLost(name) {
    const counts = this.nodes.get(name);
    return counts ? until(counts.lost, this.now()) : 0;
  }
}

const idOf = ({ edge, forward }) => (forward ? `${edge.from} > ${edge.to}` : `${edge.to} > ${edge.from}`);

function of(map, key) {
  if (!map.has(key)) map.set(key, new Counts());
  return map.get(key);
}

/** How many times of a list in order are not after t. */
function until(list, t) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

const median = (list) => (list?.length ? list[(list.length - 1) >> 1] : undefined);
