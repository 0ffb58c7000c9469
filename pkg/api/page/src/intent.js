// SPDX-License-Identifier: Apache-2.0
// What the form says as an intent, and what devices' abilities offer to the form.

/** The instructions of the INT header by the bits of its bitmap, with the names that radar gives them (pkg/telemetry/node). */
export const instructions = [
  [0x8000, 'node-id'], [0x4000, 'l1-ports'], [0x2000, 'hop-latency'], [0x1000, 'queue'],
  [0x0800, 'ingress-time'], [0x0400, 'egress-time'], [0x0200, 'l2-ports'], [0x0100, 'utilisation'],
];

/** What at least one of the devices can do. Without devices everything is offered: the server knows best. */
export function offered(devices) {
  const abilities = devices.map((d) => d.abilities).filter(Boolean);
  const all = abilities.length === 0;
  const bits = abilities.reduce((sum, a) => sum | a.instructions, 0);
  const modes = all ? ['md', 'mx', 'xd'] : [...new Set(abilities.flatMap((a) => a.modes ?? []))];
  return {
    modes,
    states: instructions.filter(([bit]) => all || bits & bit).map(([, name]) => name),
    sampling: all || abilities.some((a) => a.sampling),
    expressions: all || abilities.some((a) => a.expressions),
  };
}

const list = (text) => text.split(/[,\s]+/).filter(Boolean);

function whole(text, what, low, high) {
  if (text === '') return undefined;
  const n = Number(text);
  if (!Number.isInteger(n) || n < low || n > high) throw new Error(`${what}: a whole number from ${low} to ${high}`);
  return n;
}

/** The intent that the form's values describe. It leaves out what is not said. Throws what is wrong. */
export function intentOf(values, now = Date.now()) {
  if (!values.name) throw new Error('name: it needs one');
  const intent = { name: values.name };
  const slice = sliceOf(values);
  if (Object.keys(slice).length) intent.slice = slice;
  if (values.states.length) intent.states = [...values.states];
  if (values.mode) intent.mode = values.mode;
  const sample = whole(values.sample, 'one packet in', 1, 4294967295);
  if (sample > 1) intent.sample = sample;
  const hops = whole(values.hops, 'nodes at most', 1, 255);
  if (hops) intent.hops = hops;
  const priority = whole(values.priority, 'priority', -2147483648, 2147483647);
  if (priority) intent.priority = priority;
  if (values.lifetime) intent.expires = new Date(now + Number(values.lifetime) * 1000).toISOString();
  if (values.fallback && values.fallback !== 'refuse') intent.fallback = values.fallback;
  if (values.devices.length) intent.devices = [...values.devices];
  return intent;
}

function sliceOf(values) {
  if (values.kind === 'expr') {
    if (!values.expr.trim()) throw new Error('expression: it is empty');
    return { expr: values.expr.trim() };
  }
  const slice = {};
  for (const name of ['src', 'dst', 'sport', 'dport']) {
    const found = list(values[name]);
    if (found.length) slice[name] = found;
  }
  if (values.proto) slice.proto = values.proto;
  const dscp = whole(values.dscp, 'DSCP', 0, 63);
  if (dscp !== undefined) slice.dscp = dscp;
  return slice;
}
