// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import * as url from '../src/url.js';

globalThis.sessionStorage = { getItem: () => null };
globalThis.history = { pushState() {}, replaceState() {} };
const store = await import('../src/store.js');
const player = await import('../src/player.js');

const begun = Date.UTC(2026, 10, 28, 10) / 1000;
const timeOf = (ms) => `${new Date(begun * 1000 + ms).toISOString().slice(0, 19)}.${String(Math.round(ms * 1e6) % 1e9).padStart(9, '0')}Z`;
/** Nanoseconds since then. */
const nsOf = (text) => (Date.parse(`${text.slice(0, 19)}Z`) / 1000 - begun) * 1e9 + Number(text.slice(20, -1).padEnd(9, '0'));

/** A server that has n packets, one each millisecond, each for so long under way. It gives them as they ended if asked to. */
let asked = 0;
let hold; // what an answer waits for
function serve(n, lasts = () => 1e6, ended = false, step = 1) {
  const all = Array.from({ length: n }, (_, i) => ({ id: `p${i}`, state: 'delivered', time: timeOf(i * step), src: 'a', dst: 'b', proto: 'udp', hops: [{ node: 'a', port: 'x', at_ns: 0 }, { node: 'b', in_port: 'y', at_ns: lasts(i) }] }));
  for (const r of all) r.sent = nsOf(r.time);
  if (ended) all.sort((a, b) => a.sent + a.hops[1].at_ns - b.sent - b.hops[1].at_ns);
  globalThis.fetch = async (address) => {
    asked++;
    const { searchParams: q } = new URL(address, 'http://radar');
    const at = (name, otherwise) => (q.get(name) ? nsOf(q.get(name)) : otherwise);
    const [since, until] = [at('since', -Infinity), at('until', Infinity)];
    await hold;
    const rows = all.filter((r) => r.sent >= since && r.sent < until);
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
  assert.deepEqual(window(), [2101, 7100]); // the seam is loaded again
  assert.ok(player.machine.t < seen && player.machine.t >= seen - 1e6, 'one event before');
  await player.goBeyond(-1);
  assert.deepEqual(window(), [0, 2201]);
  player.seek(player.machine.first);
  await player.step(-1);
  assert.deepEqual([window(), player.loaded.value.end], [[0, 2201], -1]);

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

// Each other packet waits for 200 ms. Where they are dense, more of them wait than an answer has.
for (const [what, n, step, waits] of [['some wait', 14000, 1, (i) => (i % 2 ? 200e6 : 1e6)], ['all wait, dense', 24000, 0.01, () => 200e6], ['one waits', 14000, 1, (i) => (i % 3000 ? 1e6 : 200e6)]]) {
  test(`packets that waited are not left out where two loads meet: ${what}`, async () => {
    serve(n, waits, true, step);
    await open();
    for (const direction of [-1, 1]) {
      const found = new Set(ids());
      for (let i = 0; i < 30 && player.loaded.value.end !== direction; i++) {
        await player.goBeyond(direction);
        ids().forEach((id) => found.add(id));
      }
      assert.equal(found.size, n, `direction ${direction}`);
    }
  });
}

test('what is loaded beyond is dropped when its mode, domain or moment is gone', async () => {
  serve(12000);
  const leave = {
    mode: () => player.goLive(),
    domain: () => { store.state.value = { ...store.state.value, domain: 'other', t: '' }; },
    moment: () => { store.state.value = { ...store.state.value, t: `${begun + 8}.000000000` }; },
  };
  for (const [what, go] of Object.entries(leave)) {
    await open();
    let answer;
    hold = new Promise((done) => { answer = done; });
    const gone = player.goBeyond(-1);
    go();
    await Promise.resolve();
    answer();
    hold = undefined;
    await gone;
    const { t } = store.state.value;
    assert.deepEqual([window(), player.loaded.value.loading], [[7000, 11999], false], what);
    assert.equal(t, { mode: '', domain: t, moment: `${begun + 8}.000000000` }[what], what);
  }
});

test('what is known to be an end is not asked again, but later packets may come to a domain that runs', async () => {
  for (const source of ['ring', 'recording']) {
    serve(10);
    store.domains.value = [{ name: 'lab', source }];
    await open();
    for (const direction of [-1, 1]) {
      player.seek(direction > 0 ? player.machine.last : player.machine.first);
      await player.step(direction);
      const before = asked;
      await player.step(direction);
      const again = source === 'ring' && direction > 0;
      assert.deepEqual([asked - before > 0, player.isAtEnd(direction)], [again, !again], `${source} ${direction}`);
      assert.equal(player.saidOfEnd(direction), direction < 0 ? 'no earlier packets are known' : `no later packets are known${again ? ' yet' : ''}`);
    }
    store.state.value = { ...store.state.value, until: '2030-01-01T00:00:00Z' };
    assert.ok(!player.isAtEnd(1));
    await player.goBeyond(1);
    assert.equal(player.saidOfEnd(1), 'no later packets are known in the chosen range of time');
  }
  store.domains.value = [];
});
