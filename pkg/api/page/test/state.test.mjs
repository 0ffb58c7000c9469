// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import * as url from '../src/url.js';
import { BoundedMap, Ring, Series } from '../src/ring.js';
import { EventSplitter } from '../src/api.js';
import { intentOf, offered } from '../src/intent.js';
import * as format from '../src/format.js';
import * as store from '../src/store.js';
import { rateWidth, latencyColour, colours } from '../src/theme.js';

test('the address says all that is chosen, and nothing that is the default', () => {
  assert.equal(url.format(url.defaults), '#/topology');
  const state = { ...url.defaults, view: 'packets', domain: 'lab', filter: 'udp and dst port 53', sel: 'link:r2/eth1 > r3/eth0', mode: 'machine', t: '1795679883.587960110', speed: 1e-5 };
  assert.deepEqual(url.parse(url.format(state)), state);
});

test('an address that somebody made up does no harm', () => {
  for (const hash of ['', '#', '#/nowhere?x=1', '#/packets?speed=0&t=1e9&mode=x', '#/flows?__proto__=1&view=int&constructor=2', `#/int?filter=${'a'.repeat(9000)}`, '#/int?%E0%A4%A']) {
    const state = url.parse(hash);
    assert.deepEqual(Object.keys(state), Object.keys(url.defaults));
    assert.equal(state.speed, url.defaults.speed);
    assert.equal(state.t, '');
    assert.ok(state.filter.length <= 4096);
  }
});

test('a moment that somebody wrote by hand is one', () => {
  for (const [text, t] of [['1795679883', '1795679883.000000000'], ['1795679883.5', '1795679883.500000000'], ['1795679883.587960110', '1795679883.587960110'], ['1.', ''], ['1.1234567890', '']]) {
    assert.equal(url.parse(`#/topology?mode=machine&t=${text}`).t, t, text);
  }
});

test('flows: key, name, filter', () => {
  const row = { proto: 'udp', src: '10.0.1.1', sport: 51249, dst: 'fd00::1', dport: 53 };
  assert.equal(url.flowName(row), 'udp 10.0.1.1:51249 > [fd00::1]:53');
  assert.equal(url.flowTitle(url.flowKey(row)), url.flowName(row));
  assert.deepEqual(url.flowFilter(url.flowKey(row), 'len > 5'), { proto: 'udp', src: '10.0.1.1', sport: '51249', dst: 'fd00::1', dport: '53', filter: 'len > 5' });
});

test('a flow leads to the command that explains it, where there is one', () => {
  const [ring, recording] = [{ name: 'lab', source: 'ring' }, { name: 'x', source: 'recording', file: "it's; rm" }];
  const key = url.flowKey({ proto: 'tcp', src: '10.0.0.1', sport: 40000, dst: '10.0.0.2', dport: 80 });
  assert.equal(url.explainCommand(ring, key), 'radar explain --domain lab 10.0.0.1:40000-10.0.0.2:80');
  assert.equal(url.explainCommand(recording, url.flowKey({ proto: 'udp', src: 'fd00::1', sport: 1, dst: 'fd00::2', dport: 2 })), "radar explain -r 'it'\\''s; rm' '[fd00::1]:1-[fd00::2]:2'");
  for (const [domain, of] of [[{ name: 'x', source: 'reports' }, key], [undefined, key], [ring, 'icmp,10.0.0.1,,10.0.0.2,,8,7'], [ring, 'udp,10.0.0.1,,10.0.0.2,,,,fragments']]) assert.equal(url.explainCommand(domain, of), undefined);
});

test('flows of ICMP between the same hosts are told apart', () => {
  const echo = { proto: 'icmp', src: '10.0.0.1', dst: '10.0.0.3', icmp_type: 8, icmp_id: 7 };
  const rows = [echo, { ...echo, icmp_id: 8 }, { ...echo, icmp_type: 0 }, { ...echo, icmp_type: 3, icmp_id: undefined }, { ...echo, icmp_type: undefined, icmp_id: undefined, fragments: true }];
  assert.equal(new Set(rows.map(url.flowKey)).size, 5);
  assert.deepEqual(rows.map(url.flowName), ['icmp 10.0.0.1 > 10.0.0.3 echo id 7', 'icmp 10.0.0.1 > 10.0.0.3 echo id 8', 'icmp 10.0.0.1 > 10.0.0.3 reply id 7',
    'icmp 10.0.0.1 > 10.0.0.3 unreachable', 'icmp 10.0.0.1 > 10.0.0.3 fragments']);
  for (const row of rows) assert.equal(url.flowTitle(url.flowKey(row)), url.flowName(row));
  assert.deepEqual(rows.map((r) => url.flowFilter(url.flowKey(r)).filter), ['icmp[0] = 8 and icmp[4:2] = 7', 'icmp[0] = 8 and icmp[4:2] = 8', 'icmp[0] = 0 and icmp[4:2] = 7', 'icmp[0] = 3', 'ip[6:2] & 0x1fff != 0']);
  const six = { proto: 'icmpv6', src: 'fd00::1', dst: 'fd00::2', icmp_type: 128, icmp_id: 5 };
  assert.equal(url.flowFilter(url.flowKey(six), 'len > 5 or len < 3').filter, '(len > 5 or len < 3) and icmp6[0] = 128 and icmp6[4:2] = 5');
});

test('what traceroute gets is called by its name, and an unknown type by its number', () => {
  const name = (proto, type) => url.flowName({ proto, src: 'a', dst: 'b', icmp_type: type });
  assert.deepEqual([name('icmp', 11), name('icmpv6', 3), name('icmpv6', 2), name('icmp', 13)], ['icmp a > b time-exceeded', 'icmpv6 a > b time-exceeded', 'icmpv6 a > b too-big', 'icmp a > b type 13']);
});

test('a TCP header is said as the command line says it', () => {
  assert.equal(format.tcp({ tcp_flags: 24, tcp_seq: 4294967290, tcp_payload: 10, tcp_ack: 77, tcp_window: 501 }), '[P.] seq 4294967290:4 ack 77 win 501');
  assert.equal(format.tcp({ tcp_flags: 2, tcp_seq: 5, tcp_payload: 0, tcp_window: 64240 }), '[S] seq 5 win 64240');
  assert.deepEqual([format.tcp({ tcp_flags: 0, tcp_seq: 5 }), format.tcp({})], ['[none] seq 5', undefined]);
});

test('state and order of lists are in the address, and nothing else is', () => {
  const state = { ...url.defaults, view: 'packets', state: 'lost', sort: 'loss', order: 'rate', after: '1' };
  assert.equal(url.format(state), '#/packets?state=lost&sort=loss&order=rate&after=1');
  assert.deepEqual(url.parse(url.format(state)), state);
  assert.deepEqual(url.parse('#/packets?state=evil&sort=evil&order=evil&after=2&mode=evil'), { ...url.defaults, view: 'packets' });
});

test('in the time machine questions are of what was sent until its moment, and live of all again', () => {
  const at = `${Date.UTC(2026, 10, 28, 10, 0, 9) / 1000}.999999999`;
  const until = '2026-11-28T10:00:10.000000000Z'; // which the server leaves out
  const asked = (more) => {
    store.state.value = { ...url.defaults, domain: 'lab', ...more };
    const { since, until: end } = store.query();
    return [since, end];
  };
  for (const view of ['losses', 'flows', 'topology']) assert.deepEqual(asked({ view, mode: 'machine', t: at }), ['', until]);
  assert.deepEqual(asked({ mode: 'machine', t: at, since: '1m' }), ['2026-11-28T09:59:09.999999999Z', until]); // counted back from there
  assert.deepEqual(asked({ mode: 'machine', t: at, since: '1m0.5s', until: '12:00:00' }), ['2026-11-28T09:59:09.499999999Z', until]);
  assert.deepEqual(asked({ mode: 'machine', t: at, since: '09:30:00' }), ['09:30:00', until]);
  store.past.value = { first: (Number(at.split('.')[0]) - store.epoch - 4) * 1e9 }; // what is drawn began 4 s before
  assert.deepEqual(asked({ view: 'topology', mode: 'machine', t: at, since: '1m' }), ['2026-11-28T10:00:05.000000000Z', until]);
  assert.deepEqual(asked({ view: 'losses', mode: 'machine', t: at }), ['', until]);
  store.past.value = undefined;
  assert.deepEqual(asked({ mode: 'machine', since: '1m' }), ['1m', '']); // nothing is loaded
  assert.deepEqual(asked({ since: '1m', t: at }), ['1m', '']);
  store.state.value = url.defaults;
});

test('rings, series and maps have a fixed size', () => {
  const ring = new Ring(3);
  for (let i = 0; i < 10; i++) ring.push(i);
  assert.deepEqual(ring.list(), [7, 8, 9]);
  const series = new Series(['a', 'b'], 4);
  for (let i = 0; i < 9; i++) series.push(i, { a: i });
  assert.deepEqual(series.table(['b', 'a']), [[5, 6, 7, 8], [null, null, null, null], [5, 6, 7, 8]]);
  assert.equal(series.last('a'), 8);
  assert.equal(series.last('b'), undefined);
  const map = new BoundedMap(2);
  map.set('a', 1).set('b', 2).set('a', 3).set('c', 4);
  assert.deepEqual([...map], [['a', 3], ['c', 4]]);
});

test('events are read however the stream is cut, and none fills the memory', () => {
  const stream = 'retry: 1000\n\nevent: load\ndata: {"a":\ndata: 1}\n\n: comment\r\n\r\nevent: packet\r\ndata: é\r\n\r\n';
  for (let size = 1; size < stream.length; size += 3) {
    const got = [];
    const splitter = new EventSplitter((name, data) => got.push([name, data]));
    for (let i = 0; i < stream.length; i += size) splitter.push(stream.slice(i, i + size));
    assert.deepEqual(got, [['load', '{"a":\n1}'], ['packet', 'é']]);
  }
  const got = [];
  const small = new EventSplitter((name) => got.push(name), 100);
  small.push('x'.repeat(1000));
  assert.ok(small.rest.length <= 100);
  small.push('\nevent: a\n');
  for (let i = 0; i < 50; i++) small.push(`data: ${'y'.repeat(20)}\n`);
  small.push('\nevent: b\ndata: 1\n\n');
  assert.deepEqual(got, ['b']);
});

test('the form makes an intent of what is said, and of nothing else', () => {
  const values = { name: 'web', kind: 'fields', src: '10.0.1.0/24, 10.0.2.0/24', dst: '', proto: 'tcp', sport: '', dport: '80 443', dscp: '', expr: 'x', states: ['hop-latency'], mode: 'md', sample: '10', hops: '', priority: '5', lifetime: '60', fallback: 'approximate', devices: [] };
  assert.deepEqual(intentOf(values, 0), { name: 'web', slice: { src: ['10.0.1.0/24', '10.0.2.0/24'], dport: ['80', '443'], proto: 'tcp' }, states: ['hop-latency'], mode: 'md', sample: 10, priority: 5, expires: '1970-01-01T00:01:00.000Z', fallback: 'approximate' });
  assert.deepEqual(intentOf({ ...values, kind: 'expr', expr: ' udp ', states: [], mode: '', sample: '1', priority: '0', lifetime: '', fallback: 'refuse' }), { name: 'web', slice: { expr: 'udp' } });
  for (const [change, says] of [[{ name: '' }, /name/], [{ dscp: '64' }, /DSCP/], [{ sample: '0' }, /one packet/], [{ hops: 'x' }, /nodes/], [{ kind: 'expr', expr: ' ' }, /expression/]]) {
    assert.throws(() => intentOf({ ...values, ...change }), says);
  }
});

test('the form offers what devices can do', () => {
  const can = offered([{ abilities: { modes: ['md'], instructions: 0xa000, sampling: false } }, { abilities: { modes: ['md', 'xd'], instructions: 0x1000, expressions: true } }, {}]);
  assert.deepEqual(can, { modes: ['md', 'xd'], states: ['node-id', 'hop-latency', 'queue'], sampling: false, expressions: true });
  assert.equal(offered([]).states.length, 8);
});

test('numbers as people read them', () => {
  assert.deepEqual([0, 999, 1234, 25e6, 3.5e9, undefined].map(format.duration), ['0 ns', '999 ns', '1.23 µs', '25.0 ms', '3.50 s', '–']);
  assert.deepEqual([0, 19.7e6].map(format.rate), ['0 bit/s', '19.7 Mbit/s']);
  assert.deepEqual([950, 9999, 38949, 2.5e6].map(format.short), ['950', '9999', '38.9k', '2.50M']);
  assert.equal(format.count(1234567), '1 234 567');
  assert.equal(format.share(1, 3), '33 %');
});

test('a busier link is wider, a slower one has another colour', () => {
  assert.ok(rateWidth(1e9) > rateWidth(1e6) && rateWidth(1e6) > rateWidth(0));
  for (const theme of ['dark', 'light'].map(colours)) {
    const scale = [1, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e12].map((ns) => latencyColour(theme, ns));
    assert.equal(new Set(scale).size, 6); // both ends are held
    assert.ok(![theme.idle, ...scale].includes(latencyColour(theme, undefined))); // something passes, and nobody knows how long it takes
  }
});
