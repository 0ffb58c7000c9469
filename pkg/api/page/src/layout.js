// SPDX-License-Identifier: Apache-2.0
// Where nodes stand. Networks are drawn as people draw them: a chain and an ECMP network from left to
// right, a tree and a spine-leaf network in tiers, spines on top.

import { Graph as DagreGraph, layout as dagre } from './lib/dagre/dagre.js';
import { across, byName, ordered } from './tiers.js';

const gap = { node: 84, rank: 132 };

/** What the drawing is shown on, in pixels. */
const desk = { width: 908, height: 620 };

/** What of it stays free: for names at the rim, and for the buttons on the right. */
export const margins = { width: 150, height: 130 };

/**
 * Sets x and y of all vertices. @param {import('./model.js').Graph} graph @param {{width: number, height: number}} screen
 */
export function place(graph, screen = desk) {
  const portrait = screen.height > screen.width * 1.1;
  const parts = components(graph);
  for (const part of parts) {
    const style = styleOf(part);
    if (style.tiered) placeTiers(part, style.rank, screen);
    else placePart(part, portrait ? 'TB' : 'LR', style.rank);
  }
  shelve(parts.map((part) => ({ vertices: part.vertices, box: bounds(part.vertices) })), screen.width / screen.height);
}

/** Puts parts beside each other, and in as many rows as makes all of them about as wide as the screen is. */
function shelve(parts, aspect) {
  const wide = ({ box }) => box.right - box.left + gap.rank;
  const high = ({ box }) => box.bottom - box.top + gap.rank;
  const area = parts.reduce((sum, part) => sum + wide(part) * high(part), 0);
  const most = Math.max(Math.sqrt(area * aspect), ...parts.map(wide));
  let [left, top, row] = [0, 0, []];
  const end = () => {
    const height = Math.max(0, ...row.map(high));
    for (const part of row) {
      for (const v of part.vertices) v.y += top + height / 2 - (part.box.top + part.box.bottom) / 2;
    }
    [left, top, row] = [0, top + height, []];
  };
  for (const part of parts) {
    if (row.length && left + wide(part) > most * 1.001) end();
    for (const v of part.vertices) v.x += left - part.box.left;
    left += wide(part);
    row.push(part);
  }
  end();
}

/** Parts that no link connects. */
export function components(graph) {
  const next = neighbours(graph);
  const seen = new Set();
  const parts = [];
  for (const vertex of graph.vertices.values()) {
    if (seen.has(vertex)) continue;
    const vertices = [vertex];
    seen.add(vertex);
    for (let i = 0; i < vertices.length; i++) {
      for (const other of next.get(vertices[i])) {
        if (!seen.has(other)) {
          seen.add(other);
          vertices.push(other);
        }
      }
    }
    const inside = new Set(vertices);
    parts.push({ vertices, next, edges: graph.edges.filter((e) => inside.has(e.a)) });
  }
  return parts.sort((a, b) => b.vertices.length - a.vertices.length);
}

function neighbours(graph) {
  const next = new Map([...graph.vertices.values()].map((v) => [v, []]));
  for (const { a, b } of graph.edges) {
    next.get(a).push(b);
    next.get(b).push(a);
  }
  return next;
}

/** Chooses between tiers and left to right, and ranks vertices for it. Smaller ranks come first. */
export function styleOf(part) {
  const leaves = part.vertices.filter((v) => part.next.get(v).length <= 1);
  const up = distances(part, leaves.length ? leaves : [part.vertices[0]]);
  const top = Math.max(...up.values());
  const parents = part.vertices.filter((v) => up.get(v) === 1);
  if (leaves.length >= 4 && parents.length >= 2 && top >= 2) {
    return { tiered: true, rank: new Map([...up].map(([v, d]) => [v, top - d])) };
  }
  const first = farthest(part, distances(part, [part.vertices[0]]));
  const begin = farthest(part, distances(part, [first]));
  // The end that was attached first is on the left: h1 before h2.
  const start = part.vertices.indexOf(begin) < part.vertices.indexOf(first) ? begin : first;
  return { tiered: false, rank: distances(part, [start]) };
}

function distances(part, from) {
  const found = new Map(from.map((v) => [v, 0]));
  const queue = [...from];
  for (let i = 0; i < queue.length; i++) {
    for (const other of part.next.get(queue[i])) {
      if (!found.has(other)) {
        found.set(other, found.get(queue[i]) + 1);
        queue.push(other);
      }
    }
  }
  return found;
}

function farthest(part, distance) {
  let best = part.vertices[0];
  for (const v of part.vertices) {
    if (distance.get(v) > distance.get(best)) best = v;
  }
  return best;
}

const many = 60; // vertices, from which on hosts stand in blocks below their switch

function placePart(part, direction, rank) {
  const blocks = part.vertices.length > many ? hostBlocks(part, 3) : new Map();
  const hidden = new Set([...blocks.values()].flat());
  const vertices = part.vertices.filter((v) => !hidden.has(v));
  const dense = vertices.length > many / 2;
  const across = (direction === 'TB' ? gap.node + 20 : gap.node) * (dense ? 0.7 : 1);
  const g = new DagreGraph({ multigraph: false });
  g.setGraph({ rankdir: direction, nodesep: across - 44, ranksep: gap.rank - 44, ranker: vertices.length > 2 * many ? 'tight-tree' : 'network-simplex' });
  g.setDefaultEdgeLabel(() => ({}));
  for (const v of vertices) {
    const wide = columns(blocks.get(v)) * blockGap;
    const size = v.kind === 'node' ? 44 : 24;
    g.setNode(v.id, direction === 'TB' ? { width: Math.max(size, wide), height: size } : { width: size, height: Math.max(size, wide) });
  }
  for (const { a, b } of part.edges) {
    if (a === b || hidden.has(a) || hidden.has(b)) continue;
    const level = rank.get(a) === rank.get(b);
    const down = level ? part.vertices.indexOf(a) < part.vertices.indexOf(b) : rank.get(a) < rank.get(b);
    g.setEdge(down ? a.id : b.id, down ? b.id : a.id);
  }
  dagre(g);
  for (const v of vertices) {
    const node = g.node(v.id);
    v.x = node.x;
    v.y = node.y;
  }
  upright(vertices, direction);
  siblings(part, vertices, direction);
  for (const [parent, hosts] of blocks) placeBlock(parent, hosts, direction);
}

const leafWide = 62; // of a host in the lowest tier
const rows = { least: 118, most: 520, steepest: 0.3 }; // apart; of a wide drawing a share of its width

/** Tiers: as wide as what is lowest needs, and as high as makes the drawing fill the screen. */
function placeTiers(part, rank, screen) {
  const lowest = part.vertices.filter((v) => part.next.get(v).length <= 1).length;
  const blocks = part.vertices.length > many || lowest * leafWide * 0.6 > screen.width ? hostBlocks(part, 2) : new Map();
  const hidden = new Set([...blocks.values()].flat());
  const vertices = part.vertices.filter((v) => !hidden.has(v));
  const edges = part.edges.filter(({ a, b }) => a !== b && !hidden.has(a) && !hidden.has(b)).map(({ a, b }) => [a, b]);
  const tiers = ordered(vertices, edges, rank);
  const next = new Map(vertices.map((v) => [v, part.next.get(v).filter((n) => !hidden.has(n))]));
  const wide = (v) => Math.max(v.kind === 'node' ? leafWide : 40, columns(blocks.get(v)) * blockGap + 14);
  across(tiers, next, wide);
  const box = { left: Math.min(...vertices.map((v) => v.x)), right: Math.max(...vertices.map((v) => v.x)) };
  const below = Math.max(0, ...[...blocks].map(([parent, hosts]) => gap.rank * 0.8 + Math.ceil(hosts.length / columns(blocks.get(parent))) * blockGap));
  const high = (box.right - box.left) * Math.max(100, screen.height - margins.height) / Math.max(100, screen.width - margins.width) - below;
  const row = Math.min(Math.max(rows.most, rows.steepest * (box.right - box.left)), Math.max(rows.least, high / Math.max(1, tiers.length - 1)));
  tiers.forEach((tier, i) => tier.forEach((v) => { v.y = i * row; }));
  for (const [parent, hosts] of blocks) placeBlock(parent, hosts.sort(byName), 'TB');
}

/** Nodes that hang on the same one, and on no other, stand in the order of their names: in each column, or row, of the drawing. */
function siblings(part, vertices, direction) {
  const groups = new Map();
  for (const v of vertices) {
    const next = part.next.get(v);
    if (next.length !== 1) continue;
    const key = `${next[0].id}\u0000${Math.round(direction === 'TB' ? v.y : v.x)}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(v);
  }
  for (const group of groups.values()) {
    const places = group.map(({ x, y }) => ({ x, y })).sort((a, b) => a.y - b.y || a.x - b.x);
    group.sort(byName).forEach((v, i) => Object.assign(v, places[i]));
  }
}

/** What was attached first stands at the top, or on the left: dagre has no such order. */
function upright(vertices, direction) {
  const axis = direction === 'TB' ? 'x' : 'y';
  const middle = vertices.reduce((sum, v) => sum + v[axis], 0) / vertices.length;
  const order = vertices.reduce((sum, v, i) => sum + (v[axis] - middle) * (i - (vertices.length - 1) / 2), 0);
  if (order < 0) vertices.forEach((v) => { v[axis] = -v[axis]; });
}

const blockGap = 58;
const columns = (hosts) => (hosts ? Math.max(1, Math.ceil(Math.sqrt(hosts.length / 3))) : 0);

/** Nodes with one link, by the node that they hang on, where they are many. */
function hostBlocks(part, least) {
  const blocks = new Map();
  for (const v of part.vertices) {
    const next = part.next.get(v);
    if (next.length !== 1 || part.next.get(next[0]).length === 1) continue;
    if (!blocks.has(next[0])) blocks.set(next[0], []);
    blocks.get(next[0]).push(v);
  }
  for (const [parent, hosts] of blocks) {
    if (hosts.length < least) blocks.delete(parent);
  }
  return blocks;
}

function placeBlock(parent, hosts, direction) {
  const wide = columns(hosts);
  hosts.forEach((host, i) => {
    const across = (i % wide - (wide - 1) / 2) * blockGap;
    const down = gap.rank * 0.8 + Math.floor(i / wide) * blockGap;
    host.x = parent.x + (direction === 'TB' ? across : down);
    host.y = parent.y + (direction === 'TB' ? down : across);
  });
}

/** The box around vertices. */
export function bounds(vertices) {
  const box = { left: Infinity, right: -Infinity, top: Infinity, bottom: -Infinity };
  for (const v of vertices) {
    box.left = Math.min(box.left, v.x);
    box.right = Math.max(box.right, v.x);
    box.top = Math.min(box.top, v.y);
    box.bottom = Math.max(box.bottom, v.y);
  }
  return box;
}
