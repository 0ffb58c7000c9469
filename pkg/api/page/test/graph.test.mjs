// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { graphOf, way, directions } from '../src/model.js';
import { place, styleOf, components } from '../src/layout.js';

const pair = (a, ap, b, bp, load) => ({ kind: 'pair', ends: [{ node: a, port: ap }, { node: b, port: bp }], load });
const net = (names, links) => graphOf({ nodes: names.split(' ').map((name) => ({ name })), links });
const at = (graph, name) => graph.vertices.get(name);

const chain = () => net('h1 r1 r2 r3 h2', [pair('h1', 'a', 'r1', 'a'), pair('r1', 'b', 'r2', 'a'), pair('r2', 'b', 'r3', 'a'), pair('r3', 'b', 'h2', 'a')]);
const ecmp = () => net('h1 s1 s2 s3 s4 h2', [pair('h1', 'a', 's1', 'a'), pair('s1', 'b', 's2', 'a'), pair('s1', 'c', 's3', 'a'), pair('s2', 'b', 's4', 'b'), pair('s3', 'b', 's4', 'c'), pair('s4', 'a', 'h2', 'a')]);

function spineLeaf(spines, leaves, hosts) {
  const names = [];
  const links = [];
  for (let s = 0; s < spines; s++) names.push(`spine${s}`);
  for (let l = 0; l < leaves; l++) {
    names.push(`leaf${l}`);
    for (let s = 0; s < spines; s++) links.push(pair(`leaf${l}`, `up${s}`, `spine${s}`, `down${l}`));
    for (let h = 0; h < hosts; h++) {
      names.push(`h${l}_${h}`);
      links.push(pair(`h${l}_${h}`, 'eth0', `leaf${l}`, `h${h}`));
    }
  }
  return net(names.join(' '), links);
}

/** No two nodes stand on one another. */
function apart(graph, least) {
  const all = [...graph.vertices.values()];
  for (let i = 0; i < all.length; i++) {
    for (let j = 0; j < i; j++) assert.ok(Math.hypot(all[i].x - all[j].x, all[i].y - all[j].y) >= least, `${all[i].id} on ${all[j].id}`);
  }
}

test('a macvlan on another node\'s interface is connected to that node, and keeps the load of an edge', () => {
  const edge = (node, port, lower) => ({ kind: 'edge', ends: [{ node, port }], lower });
  const graph = net('h2 c d', [edge('c', 'm0', 'h2/eth0'), edge('d', 'm0', 'gone/eth0'), edge('d', 'm1')]);
  assert.deepEqual(graph.edges.map((e) => [e.a.id, e.b.name, e.id]),
    [['c', 'h2', 'c/m0 > outside'], ['d', 'outside', 'd/m0 > outside'], ['d', 'outside', 'd/m1 > outside']]);
  assert.equal(way(graph, 'h2', 'eth0', 'c', 'm0').length, 1);
  assert.equal(graph.byPort.has('outside'), false);
});

test('a chain is a line from left to right, from top to bottom on a phone', () => {
  const graph = chain();
  place(graph);
  const x = ['h1', 'r1', 'r2', 'r3', 'h2'].map((n) => at(graph, n).x);
  assert.deepEqual(x, [...x].sort((a, b) => a - b));
  assert.equal(new Set(['h1', 'r1', 'r2', 'r3', 'h2'].map((n) => at(graph, n).y)).size, 1);
  place(graph, { width: 390, height: 450 });
  assert.ok(at(graph, 'h2').y > at(graph, 'r1').y && at(graph, 'r1').y > at(graph, 'h1').y);
});

test('paths of equal cost stand beside each other, the first at the top', () => {
  const graph = ecmp();
  place(graph);
  assert.equal(at(graph, 's2').x, at(graph, 's3').x);
  assert.ok(at(graph, 's2').y < at(graph, 's3').y);
  assert.ok(at(graph, 'h1').x < at(graph, 's2').x && at(graph, 's2').x < at(graph, 'h2').x);
  apart(graph, 60);
});

test('spines are above leaves, leaves above hosts, and nothing overlaps', () => {
  const graph = spineLeaf(2, 4, 3);
  const [part] = components(graph);
  assert.equal(styleOf(part).tiered, true);
  place(graph);
  assert.ok(at(graph, 'spine0').y < at(graph, 'leaf0').y && at(graph, 'leaf0').y < at(graph, 'h0_0').y);
  assert.equal(at(graph, 'leaf0').y, at(graph, 'leaf3').y);
  apart(graph, 44);
});

test('300 nodes: no overlap, and not much wider than high', () => {
  const graph = spineLeaf(10, 29, 9);
  assert.equal(graph.vertices.size, 300);
  place(graph);
  apart(graph, 44);
  const xs = [...graph.vertices.values()].map((v) => v.x);
  const ys = [...graph.vertices.values()].map((v) => v.y);
  assert.ok((Math.max(...xs) - Math.min(...xs)) / (Math.max(...ys) - Math.min(...ys)) < 8);
});

test('many parts without a link between them fill the screen', () => {
  const names = Array.from({ length: 12 }, (_, i) => `a${i} b${i} c${i}`);
  const graph = net(names.join(' '), names.flatMap((row) => { const [a, b, c] = row.split(' '); return [pair(a, 'x', b, 'y'), pair(b, 'z', c, 'x')]; }));
  place(graph, { width: 900, height: 600 });
  apart(graph, 44);
  const of = (axis) => [...graph.vertices.values()].map((v) => v[axis]);
  const ratio = (Math.max(...of('x')) - Math.min(...of('x'))) / (Math.max(...of('y')) - Math.min(...of('y')));
  assert.ok(ratio > 0.7 && ratio < 3, `${ratio}`);
});

test('parts without a link between them stand side by side; a single node, and none, have a place', () => {
  const graph = net('a b c', [pair('a', 'x', 'b', 'y')]);
  place(graph);
  apart(graph, 44);
  place(net('a', []));
  place(graphOf(undefined));
});

test('a bridge with many ends is a hub, and packets pass over it', () => {
  const graph = graphOf({ nodes: ['h1', 'h2', 'h3'].map((name) => ({ name })), links: [{ kind: 'bridge', name: 'x/br0',
    ends: ['h1', 'h2', 'h3'].map((node) => ({ node, port: 'eth0' })), load: [{ from: 'h1/eth0', to: 'bridge x/br0', packets: 3, lost: 0 }] }] });
  assert.equal(graph.vertices.get('bridge x/br0').kind, 'hub');
  const legs = way(graph, 'h1', 'eth0', 'h3', 'eth0');
  assert.deepEqual(legs.map((l) => [l.edge.from, l.edge.to, l.forward]), [['h1/eth0', 'bridge x/br0', true], ['h3/eth0', 'bridge x/br0', false]]);
  assert.ok(graph.byEnds.has('h1/eth0 > bridge x/br0'));
});

test('ways: by ports, by nodes alone (reports), and none', () => {
  const graph = net('a b', [pair('a', 'x', 'b', 'y'), pair('a', 'x2', 'b', 'y2')]);
  assert.deepEqual(way(graph, 'b', 'y2', 'a', 'x2').map((l) => [l.edge.from, l.forward]), [['a/x2', false]]);
  assert.equal(way(graph, 'a', undefined, 'b', undefined).length, 1);
  assert.equal(way(graph, 'a', 'x', 'nowhere', 'z').length, 0);
  assert.deepEqual(graph.edges.map((e) => e.bend), [-0.5, 0.5]);
});

test('an edge port has an outside, and a load', () => {
  const graph = graphOf({ nodes: [{ name: 'r' }], links: [{ kind: 'edge', ends: [{ node: 'r', port: 'eth9' }] }] });
  assert.equal(graph.vertices.get('outside r/eth9').kind, 'outside');
  assert.ok(graph.byEnds.has('r/eth9 > outside'));
  assert.deepEqual(directions({ links: [pair('a', 'x', 'b', 'y')] }).map((d) => d.id), ['a/x > b/y']);
});
