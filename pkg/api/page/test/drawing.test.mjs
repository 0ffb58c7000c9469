// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { graphOf } from '../src/model.js';
import { place } from '../src/layout.js';
import { crossings, ordered } from '../src/tiers.js';
import { Camera, lineOf } from '../src/camera.js';
import { drawBase } from '../src/draw.js';
import { drawDots } from '../src/dots.js';
import { drawLabels, Places, crosses } from '../src/labels.js';
import { SVGContext } from '../src/svg.js';
import { Past } from '../src/past.js';
import { journeyOf } from '../src/journey.js';
import { colours } from '../src/theme.js';

const pair = (a, ap, b, bp) => ({ kind: 'pair', ends: [{ node: a, port: ap }, { node: b, port: bp }] });

/** Hosts are attached in an order that is not theirs, and those with even numbers first. */
function spineLeaf(spines, leaves, hosts) {
  const links = [];
  const names = new Set();
  const link = (a, ap, b, bp) => { names.add(a).add(b); links.push(pair(a, ap, b, bp)); };
  for (let l = leaves; l > 0; l--) for (let s = spines; s > 0; s--) link(`leaf${l}`, `up${s}`, `spine${s}`, `down${l}`);
  for (let n = leaves * hosts; n > 0; n--) link(`h${n}`, 'eth0', `leaf${Math.ceil(n / hosts)}`, `h${n}`);
  return graphOf({ nodes: [...names].map((name) => ({ name })), links });
}

const named = (graph, prefix, n) => Array.from({ length: n }, (_, i) => graph.vertices.get(`${prefix}${i + 1}`));
const rising = (list) => list.every((x, i) => i === 0 || x > list[i - 1]);

test('28 nodes fill the screen, each tier in the order of names', () => {
  const graph = spineLeaf(4, 8, 2);
  assert.equal(graph.vertices.size, 28);
  place(graph, { width: 908, height: 620 });
  for (const [prefix, n] of [['spine', 4], ['leaf', 8], ['h', 16]]) assert.ok(rising(named(graph, prefix, n).map((v) => v.x)), `${prefix} in order`);
  const camera = Object.assign(new Camera(), { width: 908, height: 620 });
  camera.fit([...graph.vertices.values()]);
  const [spine, leaf, host] = ['spine1', 'leaf1', 'h1'].map((name) => camera.at(graph.vertices.get(name)).y);
  assert.ok(leaf - spine > 180 && host - leaf > 180, `rows are ${leaf - spine} and ${host - leaf} pixels apart`);
  assert.ok(camera.size > 0.6, `names can be read: ${camera.size}`);
});

test('a small screen has hosts in blocks, so that names can be read', () => {
  const graph = spineLeaf(4, 8, 4);
  place(graph, { width: 390, height: 420 });
  assert.ok(new Set(named(graph, 'h', 4).map((v) => v.y)).size > 1, 'hosts of a leaf stand below each other');
});

test('the order of names yields to one with fewer crossings', () => {
  const v = (name) => ({ id: name, name });
  const [a, b, x, y] = ['a', 'b', 'x', 'y'].map(v);
  const rank = new Map([[a, 0], [b, 0], [x, 1], [y, 1]]);
  const edges = [[a, y], [b, x]];
  const tiers = ordered([b, a, y, x], edges, rank);
  assert.equal(crossings(tiers, edges, rank), 0);
  assert.equal(crossings([[a, b], [x, y]], edges, rank), 1);
});

test('labels yield: nothing is written on something else', () => {
  const places = new Places(100, 50);
  const box = (x, y) => ({ x, y, w: 30, h: 10 });
  assert.deepEqual(places.first([box(0, 0)]), box(0, 0));
  assert.deepEqual(places.first([box(10, 5), box(40, 5)]), box(40, 5));
  assert.equal(places.first([box(90, 5), box(20, 5)]), undefined); // beyond the rim, on another
  assert.ok(crosses([{ x: 0, y: 0 }, { x: 100, y: 100 }], { x: 45, y: 48, w: 10, h: 4 }));
  assert.ok(!crosses([{ x: 0, y: 0 }, { x: 100, y: 100 }], { x: 60, y: 10, w: 30, h: 10 }));
});

const measure = (font, text) => Number(/([\d.]+)px/.exec(font)[1]) * 0.62 * text.length;

/** Draws a graph, with a load on each link, as SVG, and returns it with the boxes of its texts. */
function drawn(graph, { width, height, lost = 0 }) {
  const camera = Object.assign(new Camera(), { width, height });
  camera.fit([...graph.vertices.values()]);
  const lines = new Map(graph.edges.map((edge) => [edge, lineOf(camera, edge)]));
  const ctx = new SVGContext(width, height, measure);
  const load = { bps: 8060, p50: 1500, queue: undefined, lost, lostNow: lost, expired: 0, total: 10, known: true, used: true };
  const picture = { ctx, camera, theme: colours('dark'), graph, lines, loadOf: () => load, selected: '', hovered: '', lit: new Set(), nodeLost: new Map([['leaf1', { lost: 7, now: 2 }]]) };
  drawBase(picture);
  const boxes = [];
  const fillText = ctx.fillText.bind(ctx);
  ctx.fillText = (text, x, y) => {
    const size = Number(/([\d.]+)px/.exec(ctx.font)[1]);
    const w = measure(ctx.font, text);
    boxes.push({ text, x: x - w / 2, y: y - size * 0.8, w, h: size * 0.9 });
    fillText(text, x, y);
  };
  drawLabels(picture);
  return { svg: ctx.toString(), boxes };
}

test('no two texts of a spine-leaf network stand on each other, and every name is there', () => {
  for (const lost of [0, 12]) {
    const graph = spineLeaf(4, 8, 2);
    place(graph, { width: 908, height: 620 });
    const { boxes, svg } = drawn(graph, { width: 908, height: 620, lost });
    const meet = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
    for (const name of graph.vertices.keys()) assert.equal(boxes.filter((b) => b.text === name).length, 1, name);
    boxes.forEach((a, i) => boxes.slice(0, i).forEach((b) => assert.ok(!meet(a, b), `${a.text} on ${b.text}`)));
    if (!lost) assert.ok(boxes.some((b) => b.text.includes('kbit/s')), 'where there is room, rates are written');
    const marks = svg.match(new RegExp(`<path [^>]*fill="${colours('dark').loss}"`, 'g')).length;
    assert.equal(marks, lost ? 2 * graph.edges.length + 1 : 1, 'no loss is left out');
    assert.ok(boxes.some((b) => b.text === '✕ 7 +2/s'));
  }
});

test('a drawing is SVG, whatever names are', () => {
  const name = '<a href="x">&b</a>';
  const graph = graphOf({ nodes: [{ name }, { name: 'r1', class: 'vm' }, { name: 'c', class: 'p4' }], links: [pair(name, 'e', 'r1', 'e'), pair('r1', 'f', 'c', 'f')] });
  place(graph);
  const { svg } = drawn(graph, { width: 600, height: 300 });
  assert.match(svg, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" width="600" height="300"/);
  assert.ok(!svg.includes('<a ') && svg.includes('&lt;a href=&quot;x') && svg.includes('>r1</text>'));
  assert.ok(!/NaN|undefined|Infinity/.test(svg), svg);
  let depth = 0;
  for (const [tag] of svg.matchAll(/<[^>]+>/g)) depth += tag.startsWith('</') ? -1 : tag.endsWith('/>') ? 0 : 1;
  assert.equal(depth, 0);
});

const epoch = 1795679883;
const record = (id, start, loss) => ({ id, state: loss ? 'lost' : 'delivered', time: `2026-11-26T07:58:03.${String(start).padStart(9, '0')}Z`, proto: 'udp', why: loss && 'queue full',
  hops: [{ node: 'a', port: 'x', at_ns: 0 }, { node: 'b', in_port: 'y', port: 'z', at_ns: 100, node_ns: 20, link_ns: 80 }, ...(loss ? [] : [{ node: 'c', in_port: 'w', at_ns: 250, link_ns: 150 }])], loss });

test('in the time machine, counts are of its moment', () => {
  const graph = graphOf({ nodes: ['a', 'b', 'c'].map((name) => ({ name })), links: [pair('a', 'x', 'b', 'y'), pair('b', 'z', 'c', 'w')] });
  const queue = { node: 'b', port: 'z', at: 'queue', reason: 'QDISC_DROP', at_ns: 300 };
  const journeys = [record('1', 0), record('2', 1000), record('3', 2000, queue), record('4', 3000, { node: 'b', at: 'node', reason: 'NETFILTER_DROP', at_ns: 90 })].map((r) => journeyOf(r, epoch));
  let now = 0;
  const past = new Past(journeys, graph, 0, () => now);
  const at = (t) => {
    now = t;
    const [there, on] = ['a/x > b/y', 'b/z > c/w'].map((id) => past.loadOf(id));
    return [there.total, on.total, on.lost, past.nodeLost('b')];
  };
  assert.deepEqual(at(0), [0, 0, 0, 0]);
  assert.deepEqual(at(90), [1, 0, 0, 0]);
  assert.deepEqual(at(1260), [2, 2, 0, 0]);
  assert.deepEqual(at(2299), [3, 2, 0, 0]);
  assert.deepEqual(at(2300), [3, 2, 1, 0]);
  assert.deepEqual(at(9999), [4, 2, 1, 1]);
  assert.equal(past.loadOf('a/x > b/y').p50, 80);
  assert.equal(past.loadOf('nobody > else').used, false);
  const reported = { ...record('5', 0), hops: [{ node: 'a', port: 'x', node_ns: 5 }, { node: 'b', in_port: 'y', node_ns: 5 }] };
  assert.deepEqual([new Past([journeyOf(reported, epoch)], graph, {}, () => 1e12).loadOf('a/x > b/y')].map(({ total, p50 }) => [total, p50]), [[1, undefined]]); // nobody has timed the link
  assert.equal(journeys[2].falls[0].why, 'queue full');
});

test('how many wait is written beside those that are drawn, whichever way the link goes', () => {
  for (const [x, y] of [[0, 300], [300, 0], [-300, 0], [200, -200]]) {
    const graph = graphOf({ nodes: [{ name: 'a' }, { name: 'b' }], links: [pair('a', 'x', 'b', 'y')] });
    Object.assign(graph.vertices.get('b'), { x, y });
    const camera = Object.assign(new Camera(), { width: 800, height: 800 });
    camera.fit([...graph.vertices.values()]);
    const [dots, texts] = [[], []];
    const ctx = new SVGContext(800, 800, measure);
    ctx.arc = (cx, cy, r) => dots.push({ cx, cy, r });
    ctx.fillText = (text, tx, ty) => texts.push({ text, w: measure(ctx.font, text), x: tx, y: ty });
    const queued = Array.from({ length: 40 }, (_, i) => {
      const segment = { kind: 'queue', from: { node: 'a', port: 'x' }, to: { node: 'a', port: 'x' }, t0: 0, t1: 100 + i };
      return { t: 50, ago: () => -1, journey: { id: `p${i}`, record: { proto: 'udp' }, start: 0, end: 100 + i, segments: [segment], falls: [] } };
    });
    drawDots({ ctx, camera, theme: colours('dark'), graph, lines: new Map(graph.edges.map((e) => [e, lineOf(camera, e)])), exact: true, chosenPacket: '' }, queued);
    assert.deepEqual([dots.length, texts.map((t) => t.text)], [14, ['40 wait']]);
    const [{ x: tx, y: ty, w }] = texts;
    for (const { cx, cy, r } of dots) assert.ok(Math.abs(cx - tx) >= w / 2 + r - 1 || Math.abs(cy - (ty - 4)) >= 4 + r - 1, `${x}, ${y}: a dot at ${cx}, ${cy} is on the text at ${tx}, ${ty}`);
  }
});
