// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import * as url from '../src/url.js';

globalThis.sessionStorage = { getItem: () => null };
globalThis.history = { pushState() {}, replaceState() {} };
const store = await import('../src/store.js');
const player = await import('../src/player.js');

const begun = Date.UTC(2026, 10, 28, 10) / 1000;
const timeOf = (ms) => new Date(begun * 1000 + ms).toISOString().replace('Z', '000000Z');

/** A server that has n packets, one each millisecond, each for so long under way. It gives them as they ended if asked to. */
function serve(n, lasts = () => 1e6, ended = false) {
  const all = Array.from({ length: n }, (_, i) => ({ id: `p${i}`, state: 'delivered', time: timeOf(i), src: 'a', dst: 'b', proto: 'udp', hops: [{ node: 'a', port: 'x', at_ns: 0 }, { node: 'b', in_port: 'y', at_ns: lasts(i) }] }));
  if (ended) all.sort((a, b) => Date.parse(a.time) + a.hops[1].at_ns / 1e6 - Date.parse(b.time) - b.hops[1].at_ns / 1e6);
  globalThis.fetch = async (address) => {
    const { searchParams: q } = new URL(address, 'http://radar');
    const at = (name, otherwise) => (q.get(name) ? Date.parse(q.get(name)) + (/\.\d{3}0*[1-9]/.test(q.get(name)) ? 0.5 : 0) : otherwise);
    const rows = all.filter((r) => Date.parse(r.time) >= at('since', 0) && Date.parse(r.time) < at('until', Infinity));
    return new Response(JSON.stringify({ rows: q.get('oldest') ? rows.slice(0, q.get('limit')) : rows.slice(-q.get('limit')) }));
  };
}

const ids = () => player.machine.journeys.map((j) => Number(j.id.slice(1)));
const window = () => [ids()[0], ids().at(-1)];

async function open() {
  store.forget();
  store.state.value = { ...url.defaults, domain: 'lab', mode: 'machine' };
  await player.loadMachine();
}

test('the time machine goes to what is earlier and later than what is loaded, and says where nothing is', async () => {
  serve(12000);
  await open();
  assert.deepEqual(window(), [7000, 11999]);
  const seen = player.machine.first;
  await player.step(-1);
  assert.deepEqual(window(), [2001, 7000]);
  assert.ok(player.machine.t < seen && player.machine.t >= seen - 1e6, 'one event before');
  await player.goBeyond(-1);
  assert.deepEqual(window(), [0, 2001]);
  player.seek(player.machine.first);
  await player.step(-1);
  assert.deepEqual([window(), player.loaded.value.end], [[0, 2001], -1]);

  player.seek(player.machine.last);
  const before = player.machine.t;
  await player.step(1);
  assert.ok(player.machine.t > before && ids().at(-1) > 6900 && player.loaded.value.end === 0);
  await player.goBeyond(1);
  await player.goBeyond(1);
  assert.equal(ids().at(-1), 11999);
  await player.goBeyond(1);
  assert.deepEqual([ids().at(-1), player.loaded.value.end], [11999, 1]);
});

test('packets that waited are not left out where two loads meet', async () => {
  serve(9000, (i) => (i % 2 ? 20e6 : 1e6), true);
  await open();
  await player.goBeyond(-1);
  const found = new Set(ids());
  for (;;) {
    await player.goBeyond(1);
    if (player.loaded.value.end) break;
    ids().forEach((id) => found.add(id));
  }
  const [first] = [...found].sort((a, b) => a - b);
  assert.equal(found.size, 9000 - first);
});
