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
  state: '', // of packets, in their list
  sort: 'packets', // of flows
  order: 'lost', // of links
  after: '', // 1: losses after delivery
  mode: 'live', // or machine
  t: '', // where the time machine is: seconds.nanoseconds
  speed: 0.001,
};

/** What some of them may be; anything else is the default. */
export const choices = {
  mode: ['live', 'machine'],
  state: ['', 'delivered', 'lost', 'left', 'expired', 'in_flight', 'ignored'],
  sort: ['packets', 'bytes', 'rate', 'latency', 'jitter', 'loss', 'dropped', 'reordered', 'duration'],
  order: ['lost', 'rate', 'latency'],
  after: ['', '1'],
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
    else if (choices[key]) state[key] = choices[key].includes(value) ? value : defaults[key];
    else if (key === 't') state.t = momentOf(value);
    else state[key] = value;
  }
  return state;
}

/** A moment, to the nanosecond: who writes one by hand need not. */
function momentOf(text) {
  const found = /^(\d{1,11})(?:\.(\d{1,9}))?$/.exec(text);
  return found ? `${found[1]}.${(found[2] ?? '').padEnd(9, '0')}` : '';
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

/**
 * The key of a flow, from a row or a record: of ICMP with the type and an echo's id, which tell flows of two hosts apart
 * as ports do. Later fragments are a flow of their own.
 */
export function flowKey(row) {
  const fragments = row.fragments || row.frag_off > 0 ? 'fragments' : '';
  return [row.proto, row.src, row.sport ?? '', row.dst, row.dport ?? '', row.icmp_type ?? '', row.icmp_id ?? '', fragments].join(',').replace(/,+$/, '');
}

/** A key's parts, by the names that rows have. @param {string} key */
export function flowOf(key) {
  const [proto, src, sport, dst, dport, type, id, fragments] = key.split(',');
  const row = { proto, src, dst, sport, dport, icmp_type: type, icmp_id: id, fragments };
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value));
}

/**
 * The parameters that select a flow's packets among those of a filter. What has no parameter of its own is an expression.
 * @param {string} key @param {string} [filter]
 */
export function flowFilter(key, filter = '') {
  const { icmp_type: type, icmp_id: id, fragments, ...rest } = flowOf(key);
  const layer = rest.proto === 'icmpv6' ? 'icmp6' : 'icmp';
  const tests = [];
  if (type !== undefined) tests.push(`${layer}[0] = ${type}`);
  if (id !== undefined) tests.push(`${layer}[4:2] = ${id}`);
  if (fragments && !rest.src.includes(':')) tests.push('ip[6:2] & 0x1fff != 0');
  const text = [filter.trim() && `(${filter})`, ...tests].filter(Boolean).join(' and ');
  return { ...rest, filter: tests.length ? text : filter };
}

// ICMP's types in the command line's words (pkg/words). Others are numbers.
const icmpNames = {
  icmp: { 0: 'reply', 3: 'unreachable', 5: 'redirect', 8: 'echo', 11: 'time-exceeded' },
  icmpv6: { 1: 'unreachable', 2: 'too-big', 3: 'time-exceeded', 128: 'echo', 129: 'reply' },
};

/** A flow in words, as radar's tables have it. */
export function flowName(row) {
  const end = (host, port) => (port === undefined || port === '' ? host : host?.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
  const { icmp_type: type, icmp_id: id } = row;
  const icmp = type === undefined ? '' : ` ${icmpNames[row.proto]?.[type] ?? `type ${type}`}${id === undefined ? '' : ` id ${id}`}`;
  return `${row.proto} ${end(row.src, row.sport)} > ${end(row.dst, row.dport)}${icmp}${row.fragments ? ' fragments' : ''}`;
}

const quoted = (text) => (/^[\w.:/@%+,=-]+$/.test(text) && !text.startsWith('-') ? text : `'${text.replaceAll("'", "'\\''")}'`);

/**
 * The command that says why a flow was slow, and why its data was sent again, where radar can: undefined of anything else.
 * Of a recording the server says no more than the name: the command is for the folder that has it.
 * @param {{name: string, source: string, file?: string}|undefined} domain @param {string} key
 */
export function explainCommand(domain, key) {
  const { proto, src, dst, sport, dport } = flowOf(key);
  if (!['tcp', 'udp'].includes(proto) || !sport || !dport || !['ring', 'recording'].includes(domain?.source)) return undefined;
  const end = (host, port) => (host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`);
  const of = domain.source === 'recording' ? `-r ${quoted(domain.file ?? domain.name)}` : `--domain ${quoted(domain.name)}`;
  return `radar explain ${of} ${quoted(`${end(src, sport)}-${end(dst, dport)}`)}`;
}

/** A flow's key in words. @param {string} key */
export const flowTitle = (key) => flowName(flowOf(key));
