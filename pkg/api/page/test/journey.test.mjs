// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { journeyOf, positions, spread, parseTime, timeText, timeOf, sinceEpoch } from '../src/journey.js';
import { Machine, speedOfSlider, sliderOfSpeed } from '../src/machine.js';

// As `radar packets -o json` printed them in lab bottleneck: delivered with a wait in r2's queue, and lost there.
const epoch = 1795679883;
const delivered = { id: 'a', state: 'delivered', time: '2026-11-26T07:58:03.587960110Z', proto: 'udp', hops: [
  { node: 'h1', port: 'eth0', at_ns: 0 }, { node: 'r1', in_port: 'eth0', port: 'eth1', at_ns: 15700, node_ns: 10300, link_ns: 5400 },
  { node: 'r2', in_port: 'eth0', port: 'eth1', at_ns: 24737, node_ns: 5040, queue_ns: 25112467, link_ns: 3997 },
  { node: 'r3', in_port: 'eth0', port: 'eth1', at_ns: 25144768, node_ns: 3907, link_ns: 3657 },
  { node: 'h2', in_port: 'eth0', at_ns: 25146131, link_ns: 1363 }] };
const lost = { id: 'b', state: 'lost', time: '2026-11-26T07:58:03.587997701Z', proto: 'udp', hops: [
  { node: 'h1', port: 'eth0', at_ns: 0 }, { node: 'r1', in_port: 'eth0', port: 'eth1', at_ns: 1523, node_ns: 802, link_ns: 721 },
  { node: 'r2', in_port: 'eth0', port: 'eth1', at_ns: 2625, node_ns: 551, link_ns: 551 }],
loss: { node: 'r2', port: 'eth1', at: 'queue', reason: 'QDISC_DROP', qdisc: 'tbf', at_ns: 43271 } };

test('times are exact to the nanosecond', () => {
  assert.deepEqual(parseTime('2026-11-26T07:58:03.5Z'), { seconds: epoch, nanos: 500000000 });
  assert.equal(sinceEpoch(delivered.time, epoch), 587960110);
  assert.equal(timeText(587960110, epoch), '1795679883.587960110');
  assert.equal(timeOf('1795679883.587960110', epoch), 587960110);
  assert.equal(timeOf(timeText(-5, epoch), epoch), -5);
  for (const text of ['', undefined, 'yesterday', '2026-11-26T07:58:03']) assert.equal(parseTime(text), undefined);
});

test('each link of a record takes its link_ns, each queue its queue_ns, each node its node_ns', () => {
  const journey = journeyOf(delivered, epoch);
  const of = (kind) => journey.segments.filter((s) => s.kind === kind).map((s) => s.t1 - s.t0);
  assert.deepEqual(of('link'), [5400, 3997, 3657, 1363]);
  assert.deepEqual(of('queue'), [25112467]);
  assert.deepEqual(of('node'), [10300, 5040, 3907]);
  assert.equal(journey.end - journey.start, 25146131);
});

test('a packet is at one place at any time, and where it was measured', () => {
  const journey = journeyOf(delivered, epoch);
  for (let t = journey.start; t <= journey.end; t += 997) assert.equal(positions(journey, t).length, 1, `at ${t - journey.start}`);
  const at = (t) => positions(journey, journey.start + t)[0];
  assert.equal(at(2700).segment.to.node, 'r1');
  assert.equal(at(2700).part, 0.5);
  assert.equal(at(10e6).segment.kind, 'queue');
  assert.equal(at(10e6).segment.from.port, 'eth1');
  assert.equal(at(25146131).segment.to.node, 'h2');
  assert.equal(positions(journey, journey.end + 1).length, 0);
});

test('a lost packet stays at the place of its loss until it falls', () => {
  const journey = journeyOf(lost, epoch);
  assert.deepEqual(journey.falls.map((f) => [f.node, f.port, f.at, f.reason, f.t - journey.start]), [['r2', 'eth1', 'queue', 'QDISC_DROP', 43271]]);
  const [{ segment }] = positions(journey, journey.start + 20000);
  assert.deepEqual([segment.kind, segment.from.node, segment.from.port], ['queue', 'r2', 'eth1']);
  assert.equal(journey.end - journey.start, 43271);
});

test('copies branch by prev, and what was freed after delivery is no loss', () => {
  const tree = { id: 'c', time: delivered.time, hops: [{ node: 'h1', port: 'e', at_ns: 0 }, { node: 'sw', in_port: 'a', port: 'b', at_ns: 10, node_ns: 2 },
    { node: 'h2', in_port: 'e', at_ns: 20, prev: 1 }, { node: 'h3', in_port: 'e', at_ns: 30, prev: 1 }], losses: [{ node: 'h2', at: 'node', hop: 2, after_delivery: true }] };
  const journey = journeyOf(tree, epoch);
  assert.deepEqual(journey.segments.filter((s) => s.kind === 'link').map((s) => `${s.from.node}>${s.to.node}`), ['h1>sw', 'sw>h2', 'sw>h3']);
  assert.equal(positions(journey, journey.start + 15).length, 2);
  assert.deepEqual(journey.falls, []);
});

test('slowed for eyes, no link is faster than the floor, and the order stays', () => {
  for (const record of [delivered, lost]) {
    const slow = spread(journeyOf(record, epoch), 1400, 230);
    assert.equal(slow.start, 0);
    for (const s of slow.segments.filter((x) => x.kind === 'link')) assert.ok(s.t1 - s.t0 >= 230);
    const order = [...slow.segments].sort((a, b) => a.t0 - b.t0).map((s) => s.hop);
    assert.deepEqual(order, [...order].sort((a, b) => a - b));
    assert.ok(slow.end < 1400 + 8 * 230);
  }
});

test('records without times, hops or ends do no harm', () => {
  for (const record of [{ id: 'x', time: delivered.time }, { id: 'x', time: delivered.time, hops: [{ node: 'a' }, { node: 'b' }] }, { id: 'x', time: delivered.time, hops: [], loss: {} }]) {
    const journey = journeyOf(record, epoch);
    assert.ok(Number.isFinite(journey.end));
    positions(journey, journey.start);
    spread(journey, 1000, 100);
  }
});

test('the machine steps from event to event, and knows what is under way', () => {
  const machine = new Machine();
  machine.load([journeyOf(lost, epoch), journeyOf(delivered, epoch)]);
  assert.equal(machine.first, 587960110);
  assert.equal(machine.next(machine.first), machine.first + 5400);
  assert.equal(machine.previous(machine.first + 5400), machine.first);
  let steps = 0;
  for (let t = machine.first; t < machine.last; t = machine.next(t)) steps++;
  assert.equal(steps, machine.events.length - 1);
  assert.equal(machine.next(machine.last), machine.last);
  assert.deepEqual(machine.active(587998000).map((j) => j.id), ['a', 'b']);
  assert.deepEqual(machine.active(machine.last).map((j) => j.id), ['a']);
  assert.deepEqual([...machine.histogram(4).lost].reduce((a, b) => a + b), 1);
});

test('time passes at its speed, and nothing is waited for', () => {
  const later = { ...delivered, id: 'd', time: '2026-11-26T07:58:13.000000000Z' };
  const machine = new Machine();
  machine.load([journeyOf(delivered, epoch), journeyOf(later, epoch)]);
  machine.t = machine.first;
  machine.advance(1e9, 0.001);
  assert.equal(machine.t, machine.first + 1e6);
  machine.advance(1e11, 0.001);
  assert.equal(machine.t, sinceEpoch(later.time, epoch));
  assert.equal(machine.advance(1e12, 1), false);
  assert.equal(machine.t, machine.last);
  const empty = new Machine();
  assert.equal(empty.advance(1, 1), false);
  assert.equal(empty.next(0), 0);
  for (const speed of [1, 0.001, 1e-7]) assert.ok(Math.abs(speedOfSlider(sliderOfSpeed(speed)) / speed - 1) < 1e-9);
});

test('hops of switches that report no moments come one after the other', () => {
  const record = { id: 'r', time: '2026-01-02T03:04:05.000000100Z', hops: [{ node: 's1', port: '2', node_ns: 500 }, { node: 's2', in_port: '1', port: '2', node_ns: 300 }] };
  const journey = journeyOf(record, Date.parse('2026-01-02T03:04:05Z') / 1000);
  assert.deepEqual(journey.segments.map((s) => [s.kind, s.t0, s.t1]), [['node', 100, 600], ['link', 600, 600], ['node', 600, 900]]);
  assert.equal(journey.end, 900);
});
