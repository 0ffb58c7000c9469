// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import * as health from '../src/health.js';
import * as store from '../src/store.js';

const load = (more = {}) => store.apply('load', { t_ns: 1e18, span_ns: 1e9, packets: 1, bytes: 1, lost: 0, links: [], nodes: [], ...more });
const kinds = () => health.trouble.value.map((t) => t.kind);

test('the dot is green only while packets come in and nothing keeps them from it', () => {
  assert.equal(health.alive.value, false); // not connected yet
  health.connected.value = { ok: true, text: '' };
  load();
  assert.equal(health.alive.value, true);

  load({ notes: [{ kind: 'no_agent', text: 'no agent runs: go on with: radar attach -d' }] });
  assert.deepEqual(health.trouble.value, [{ kind: 'no_agent', text: 'No agent runs: go on with: radar attach -d' }]);
  assert.deepEqual([health.alive.value, health.stale.value], [false, false]); // packets are still recorded
  load({ notes: [{ kind: 'no_nodes', text: 'no node is left' }] });
  assert.equal(health.stale.value, true);
  load();
  assert.deepEqual([kinds(), health.alive.value], [[], true]);

  health.detached.value = 'domain "d" is not attached (attach nodes with: radar attach NODE...)';
  assert.match(health.trouble.value[0].text, /^Nothing is measured: domain "d" is not attached \(attach nodes with/);
  assert.deepEqual([health.alive.value, health.stale.value], [false, true]);
  load(); // it was attached again
  assert.deepEqual(kinds(), []);

  health.connected.value = { ok: false, text: '' }; // one interruption, which is soon over
  assert.deepEqual([kinds(), health.alive.value], [[], false]);
  health.connected.value = { ok: false, text: 'radar serve does not answer' };
  assert.deepEqual([kinds(), health.stale.value], [['server'], true]);
  health.connected.value = { ok: true, text: '' };
});

test('a server that is there and says nothing more is noticed, one that never said anything is not', () => {
  let now = 100;
  const watch = new health.Watch(() => now);
  watch.begin();
  now += 60;
  watch.look();
  assert.equal(health.silent.value, 0); // a domain of reports has no load events
  watch.hear();
  now += 4;
  watch.look();
  assert.equal(health.silent.value, 0);
  now += 3;
  watch.look();
  assert.deepEqual([health.silent.value, kinds(), health.alive.value], [7, ['silent'], false]);
  watch.hear();
  assert.deepEqual([health.silent.value, kinds()], [0, []]);
});

test('what is drawn of a domain that says nothing more is not of this second', () => {
  const link = { kind: 'pair', ends: [{ node: 'a', port: 'x' }, { node: 'b', port: 'y' }], load: [{ from: 'a/x', to: 'b/y', packets: 5, lost: 2 }, { from: 'b/y', to: 'a/x', packets: 0, lost: 0 }] };
  store.setTopology({ nodes: [{ name: 'a' }, { name: 'b' }], links: [link] });
  load({ links: [{ from: 'a/x', to: 'b/y', packets: 10, bytes: 1000, lost: 3 }] });
  const { used, bps, lost, lostNow } = store.loadOf('a/x > b/y');
  assert.deepEqual({ used, bps, lost, lostNow }, { used: true, bps: 8000, lost: 5, lostNow: 3 });
  health.connected.value = { ok: false, text: 'gone' };
  assert.deepEqual([store.loadOf('a/x > b/y').used, store.loadOf('a/x > b/y').bps, store.loadOf('a/x > b/y').lost], [false, undefined, 5]);
  health.connected.value = { ok: true, text: '' };
});

test('when no node is left the drawing stays, and whoever comes then sees what packets passed', () => {
  store.forget();
  const link = { kind: 'pair', ends: [{ node: 'a', port: 'x' }, { node: 'b', port: 'y' }] };
  const gone = { nodes: [], links: [] };
  const drawn = () => [[...store.graph.vertices.keys()], store.graph.edges.map((e) => e.id)];
  store.setTopology({ nodes: [{ name: 'a' }, { name: 'b' }], links: [link] });
  store.setTopology(gone);
  assert.deepEqual(drawn(), [['a', 'b'], ['a/x > b/y']]);

  store.forget();
  store.setTopology(gone);
  const there = { hops: [{ node: 'a', port: 'x' }, { node: 'b', in_port: 'y', port: 'z' }, { node: 'c', in_port: 'y' }] };
  const back = { hops: [{ node: 'b', port: 'y' }, { node: 'a', in_port: 'x' }, { node: 'd', in_port: 'q', gap: true }] };
  store.drawPassed([there, back]);
  assert.deepEqual(drawn(), [['a', 'b', 'c', 'd'], ['a/x > b/y', 'b/z > c/y']]);
  store.drawPassed([{ hops: [{ node: 'e' }] }]); // of packets that were loaded later
  assert.deepEqual([...store.graph.vertices.keys()], ['a', 'b', 'c', 'd', 'e']);
  store.setTopology({ nodes: [{ name: 'a' }], links: [] });
  store.drawPassed([there]);
  assert.deepEqual(drawn(), [['a'], []]); // there is a drawing
  store.forget();
  store.drawPassed([there]);
  assert.deepEqual(drawn(), [[], []]); // whether nodes are left is not known yet
  store.setTopology(gone);
  assert.deepEqual(drawn(), [['a', 'b', 'c'], ['a/x > b/y', 'b/z > c/y']]);
  store.forget();
});

test('links that only switches tell of are used if their packets became more', () => {
  store.forget();
  const answer = (packets) => ({ nodes: [{ name: 's1', class: 'reported' }, { name: 's2', class: 'p4' }], links: [{ kind: 'pair', ends: [{ node: 's1', port: '1' }, { node: 's2', port: '2' }],
    load: [{ from: 's1/1', to: 's2/2', packets, lost: 0 }] }] });
  load();
  for (const [packets, used] of [[7, true], [7, false], [9, true]]) {
    store.setTopology(answer(packets));
    assert.equal(store.loadOf('s1/1 > s2/2').used, used, `${packets} packets`);
  }
});
