// SPDX-License-Identifier: Apache-2.0
// A record as what happens to its packet, and when: on links, in queues, inside nodes, lost.
//
// A record's t_ns is larger than what a JavaScript number keeps exactly. Times here are nanoseconds since
// an epoch of the page (a whole second), computed from the text, so they are exact.

/**
 * @typedef {{node: string, port?: string}} Place
 * @typedef {{kind: 'link'|'queue'|'node', from: Place, to: Place, t0: number, t1: number, hop: number}} Segment
 * @typedef {{t: number, node: string, port?: string, at: string, reason: string, why?: string, qdisc?: string, hop: number}} Fall
 * @typedef {{id: string, record: object, start: number, end: number, segments: Segment[], falls: Fall[]}} Journey
 */

/** Splits an RFC 3339 time into whole seconds and nanoseconds. @param {string} text */
export function parseTime(text) {
  const found = /^(.*:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/.exec(text ?? '');
  if (!found) return undefined;
  const seconds = Date.parse(found[1] + found[3]) / 1000;
  return Number.isNaN(seconds) ? undefined : { seconds, nanos: Number((found[2] ?? '0').padEnd(9, '0')) };
}

/** Nanoseconds since an epoch in seconds. */
export function sinceEpoch(text, epoch) {
  const time = parseTime(text);
  return time ? (time.seconds - epoch) * 1e9 + time.nanos : 0;
}

/** A time as the address has it, seconds.nanoseconds. @param {number} t @param {number} epoch */
export function timeText(t, epoch) {
  const seconds = Math.floor(t / 1e9);
  return `${epoch + seconds}.${String(Math.round(t - seconds * 1e9)).padStart(9, '0')}`;
}

/** Reads what timeText wrote. */
export function timeOf(text, epoch) {
  const [seconds, nanos] = text.split('.');
  return (Number(seconds) - epoch) * 1e9 + Number(nanos);
}

/** A time as RFC 3339, to the nanosecond. @param {number} t @param {number} epoch */
export function isoOf(t, epoch) {
  const [seconds, nanos] = timeText(t, epoch).split('.');
  return `${new Date(Number(seconds) * 1000).toISOString().slice(0, 19)}.${nanos}Z`;
}

const units = { h: 3.6e12, m: 6e10, s: 1e9, ms: 1e6, us: 1e3, 'µs': 1e3, ns: 1 };

/** Since when a range counts that ends at t: a duration counts back from there, a time is one anyway. @param {string} since */
export function sinceAt(since, t, epoch) {
  if (!/^(\d+(\.\d+)?(h|ms|m|s|us|µs|ns))+$/.test(since)) return since;
  let back = 0;
  for (const [, n, unit] of since.matchAll(/([\d.]+)([a-zµ]+)/g)) back += Number(n) * units[unit];
  return isoOf(t - Math.round(back), epoch);
}

/** Makes the journey of a record. @param {object} record @param {number} epoch @returns {Journey} */
export function journeyOf(record, epoch) {
  const start = sinceEpoch(record.time, epoch);
  const hops = timed(record.hops ?? []);
  const segments = [];
  hops.forEach((hop, i) => addHop(segments, hops, hop, i, start));
  const falls = fallsOf(record, hops, start);
  let end = start;
  for (const s of segments) end = Math.max(end, s.t1);
  for (const fall of falls) end = Math.max(end, fall.t);
  waitToFall(segments, falls, hops, start);
  return { id: record.id, record, start, end, segments, falls };
}

/**
 * Hops as they are in radar's own records: each says when the packet was seen last there. Switches that report may say no
 * more than how long it was inside them. Then one comes right after the other, and links take no time.
 */
function timed(hops) {
  if (hops.every((hop) => hop.at_ns !== undefined || !hop.node_ns)) return hops;
  const at = [];
  return hops.map((hop, i) => {
    const before = hop.prev ?? i - 1;
    at[i] = hop.at_ns ?? (at[before] ?? 0) + (hops[before]?.queue_ns ?? 0) + (hop.node_ns ?? 0);
    return { ...hop, at_ns: at[i] };
  });
}

/** When a hop's packet came in: of the last hop that is its at_ns, else its time inside is before. */
function cameIn(hop) {
  return hop.at_ns === undefined ? undefined : hop.at_ns - (hop.node_ns ?? 0);
}

function addHop(segments, hops, hop, i, start) {
  const before = hops[hop.prev ?? i - 1];
  if (before && before.at_ns !== undefined && hop.at_ns !== undefined && !hop.gap) {
    const sent = before.at_ns + (before.queue_ns ?? 0);
    const arrived = Math.max(cameIn(hop), sent);
    const from = { node: before.node, port: before.port };
    const to = { node: hop.node, port: hop.in_port };
    segments.push({ kind: 'link', from, to, t0: start + sent, t1: start + arrived, hop: i });
  }
  if (hop.node_ns) {
    const place = { node: hop.node, port: hop.in_port };
    segments.push({ kind: 'node', from: place, to: { node: hop.node, port: hop.port }, t0: start + cameIn(hop), t1: start + hop.at_ns, hop: i });
  }
  if (hop.queue_ns) {
    const place = { node: hop.node, port: hop.port };
    segments.push({ kind: 'queue', from: place, to: place, t0: start + hop.at_ns, t1: start + hop.at_ns + hop.queue_ns, hop: i });
  }
}

function fallsOf(record, hops, start) {
  const all = record.losses ?? (record.loss ? [record.loss] : []);
  return all.filter((loss) => !loss.after_delivery).map((loss) => {
    const hop = loss.hop ?? hops.length - 1;
    const at = loss.at_ns ?? hops[hop]?.at_ns ?? 0;
    return { t: start + at, node: loss.node, port: loss.port, at: loss.at ?? 'node', reason: loss.reason ?? '', why: record.why, qdisc: loss.qdisc, function: loss.function, hop };
  });
}

/** Between the last time stamp and the loss, the packet is at the place where it will be lost. */
function waitToFall(segments, falls, hops, start) {
  for (const fall of falls) {
    const last = hops[fall.hop];
    if (!last || last.at_ns === undefined || start + last.at_ns >= fall.t) continue;
    const kind = fall.at === 'queue' || fall.at === 'egress' || fall.at === 'link' ? 'queue' : 'node';
    const place = { node: fall.node || last.node, port: fall.port };
    segments.push({ kind, from: place, to: place, t0: start + last.at_ns, t1: fall.t, hop: fall.hop });
  }
}

/** Where the packet is at t: the segments that it is in, with how far. Several, if there are copies. @param {Journey} journey @param {number} t */
export function positions(journey, t) {
  const found = [];
  for (const segment of journey.segments) {
    if (t < segment.t0 || t > segment.t1 || (t === segment.t1 && segment.t1 > segment.t0 && !isLast(journey, segment))) continue;
    found.push({ segment, part: segment.t1 > segment.t0 ? (t - segment.t0) / (segment.t1 - segment.t0) : 1 });
  }
  return found;
}

function isLast(journey, segment) {
  return segment.t1 === journey.end;
}

/**
 * The same journey, slowed for eyes: it lasts about total, and no link less than floor, however fast it was.
 * Times begin at 0, and have the unit of total. @param {Journey} journey
 */
export function spread(journey, total, floor) {
  const order = [...journey.segments].sort((a, b) => a.t0 - b.t0 || a.t1 - b.t1);
  const cuts = [...new Set([journey.start, ...order.flatMap((s) => [s.t0, s.t1]), ...journey.falls.map((f) => f.t)])].sort((a, b) => a - b);
  const whole = Math.max(journey.end - journey.start, 1);
  const at = new Map([[cuts[0], 0]]);
  for (let i = 1, now = 0; i < cuts.length; i++) {
    const middle = (cuts[i] + cuts[i - 1]) / 2;
    const moves = order.some((s) => s.kind === 'link' && s.t0 <= middle && middle <= s.t1);
    now += Math.max((cuts[i] - cuts[i - 1]) / whole * total, moves ? floor : floor / 4);
    at.set(cuts[i], now);
  }
  const segments = journey.segments.map((s) => ({ ...s, t0: at.get(s.t0), t1: at.get(s.t1) }));
  const falls = journey.falls.map((f) => ({ ...f, t: at.get(f.t) }));
  return { ...journey, start: 0, end: at.get(cuts[cuts.length - 1]), segments, falls };
}
