// SPDX-License-Identifier: Apache-2.0
// The page's state as the fragment of its address, so that what one sees can be shared:
// #/packets?domain=lab&filter=udp&sel=packet:31dd60c5-126a7f

export const views = ['topology', 'packets', 'flows', 'paths', 'losses', 'int'];

/** What the address can say. A value that is the default is left out. */
export const defaults = {
  view: 'topology',
  domain: '',
  filter: '', // in tcpdump's language
  since: '', // a duration (10s, 5m) or a time, as the command line has it
  until: '',
  sel: '', // node:NAME, link:FROM>TO, flow:KEY, packet:ID, intent:NAME
  flow: '', // the flow that is followed
  mode: 'live', // or machine
  t: '', // where the time machine is: seconds.nanoseconds
  speed: 0.001,
};

const longest = 4096;

/** Reads the fragment. What it does not know, or what cannot be, it leaves at the default. @param {string} hash */
export function parse(hash) {
  const state = { ...defaults };
  const text = hash.replace(/^#?\/?/, '').slice(0, 2 * longest);
  const [view, query = ''] = text.split(/\?(.*)/s);
  if (views.includes(view)) state.view = view;
  for (const [key, value] of new URLSearchParams(query)) {
    if (!Object.hasOwn(defaults, key) || key === 'view' || value.length > longest) continue;
    if (key === 'speed') state.speed = speedOf(value);
    else if (key === 'mode') state.mode = value === 'machine' ? 'machine' : 'live';
    else if (key === 't') state.t = /^\d{1,11}\.\d{9}$/.test(value) ? value : '';
    else state[key] = value;
  }
  return state;
}

/** Writes the fragment. @param {typeof defaults} state */
export function format(state) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (key !== 'view' && key in defaults && value !== defaults[key] && value !== undefined) query.set(key, String(value));
  }
  const text = query.toString();
  return `#/${state.view}${text ? `?${text}` : ''}`;
}

function speedOf(text) {
  const speed = Number(text);
  return speed >= 1e-7 && speed <= 10 ? speed : defaults.speed;
}

/** Splits a selection into its kind and its name. @param {string} sel */
export function selection(sel) {
  const at = sel.indexOf(':');
  return at < 0 ? { kind: '', name: '' } : { kind: sel.slice(0, at), name: sel.slice(at + 1) };
}

/** The key of a flow, from a row or a record. */
export function flowKey(row) {
  return [row.proto, row.src, row.sport ?? '', row.dst, row.dport ?? ''].join(',');
}

/** The filter parameters that select a flow's packets. @param {string} key */
export function flowFilter(key) {
  const [proto, src, sport, dst, dport] = key.split(',');
  const filter = { proto, src, dst };
  if (sport) filter.sport = sport;
  if (dport) filter.dport = dport;
  return filter;
}

/** A flow in words, as radar's tables have it. */
export function flowName(row) {
  const end = (host, port) => (port === undefined || port === '' ? host : host?.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
  return `${row.proto} ${end(row.src, row.sport)} > ${end(row.dst, row.dport)}`;
}

/** A flow's key in words. @param {string} key */
export function flowTitle(key) {
  const [proto, src, sport, dst, dport] = key.split(',');
  return flowName({ proto, src, sport, dst, dport });
}
