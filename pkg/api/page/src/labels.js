// SPDX-License-Identifier: Apache-2.0
// What is written on the drawing, above the packets: names, losses, rates. No two stand on each other: the less important
// yields, or is left out. The lists beside the drawing have all of them.

import { pointOn } from './camera.js';
import { font, laneOffset } from './draw.js';
import { duration, perSecond, rate, short } from './format.js';

/** Rectangles of the screen that are taken. */
export class Places {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.taken = [];
  }

  take(box) {
    this.taken.push(box);
  }

  /** @param {{x: number, y: number, w: number, h: number}} box from its upper left corner */
  free(box) {
    if (box.x < 0 || box.y < 0 || box.x + box.w > this.width || box.y + box.h > this.height) return false;
    return !this.taken.some((t) => box.x < t.x + t.w && t.x < box.x + box.w && box.y < t.y + t.h && t.y < box.y + box.h);
  }

  /** Takes the first of the boxes that is free, and returns it. @param {object[]} boxes @param {(box: object) => boolean} [also] */
  first(boxes, also = () => true) {
    const box = boxes.find((b) => this.free(b) && also(b));
    if (box) this.take(box);
    return box;
  }
}

const mostLabelled = 150; // links, of which rates are written; hover shows those of the others

/** Draws what is written. @param {import('./draw.js').Picture} p @returns {Places} where it stands */
export function drawLabels(p) {
  const { ctx, camera } = p;
  ctx.clearRect(0, 0, camera.width, camera.height);
  const places = new Places(camera.width, camera.height);
  const vertices = [...p.graph.vertices.values()].map((vertex) => ({ vertex, at: camera.at(vertex), r: camera.radius(vertex) }));
  for (const { at, r } of vertices) places.take({ x: at.x - r, y: at.y - r, w: 2 * r, h: 2 * r });
  const chosen = ({ vertex }) => vertex.id === p.hovered || p.selected === `node:${vertex.name}`;
  vertices.sort((a, b) => chosen(b) - chosen(a) || (b.vertex.kind === 'node') - (a.vertex.kind === 'node'));
  for (const v of vertices) if (v.vertex.kind === 'node') nameNode(p, v, places, chosen(v));
  const links = p.graph.edges.length > mostLabelled ? [] : p.graph.edges.map((edge) => ({ edge, points: pointsOf(p.lines.get(edge)) }));
  const clear = (box, own) => !links.some(({ edge, points }) => edge !== own && crosses(points, box));
  for (const { vertex, at, r } of vertices) {
    const lost = p.nodeLost.get(vertex.name);
    if (lost?.lost) markNode(p, at, r, lost, places, clear);
  }
  const loads = p.graph.edges.map((edge) => ({ edge, there: p.loadOf(`${edge.from} > ${edge.to}`), back: p.loadOf(`${edge.to} > ${edge.from}`) }));
  for (const { edge, there, back } of loads) {
    markLoss(p, edge, true, there, places);
    markLoss(p, edge, false, back, places);
  }
  for (const v of vertices) if (v.vertex.kind !== 'node') nameSmall(p, v, places);
  labelEdges(p, loads, places, clear);
  return places;
}

/** A text with its middle at x, and its lines' foot at y. */
function boxOf(ctx, text, x, y, size) {
  const w = ctx.measureText(text).width + 4;
  return { x: x - w / 2, y: y - size, w, h: size + 3, foot: y, middle: x };
}

function nameNode(p, { vertex, at, r }, places, chosen) {
  const { ctx, theme, camera } = p;
  if (camera.size < 0.36 && !chosen) return;
  const glyphed = ['bridge', 'switch', 'p4'].includes(vertex.class) && camera.size >= 0.6;
  const size = Math.max(10, Math.min(13, 13 * camera.size));
  ctx.font = font(size, 600);
  ctx.textAlign = 'center';
  if (ctx.measureText(vertex.name).width < 2 * r - 3) {
    outlined(ctx, theme.node, vertex.name, at.x, at.y + size * 0.36 - (glyphed ? 4 : 0), theme.text);
    return;
  }
  const name = vertex.name.length > 18 ? `${vertex.name.slice(0, 17)}…` : vertex.name;
  const half = ctx.measureText(name).width / 2;
  const spots = [[0, r + size + 2], [0, -r - 5], [r + half + 4, size * 0.36], [-r - half - 4, size * 0.36]];
  const boxes = spots.map(([dx, dy]) => boxOf(ctx, name, at.x + dx, at.y + dy, size));
  const box = places.first(boxes) ?? (chosen ? boxes[0] : undefined);
  if (box) outlined(ctx, theme.ground, name, box.middle, box.foot, theme.text);
}

function nameSmall(p, { vertex, at, r }, places) {
  const { ctx, theme, camera } = p;
  if (camera.size < 0.6) return;
  ctx.font = font(10);
  ctx.textAlign = 'center';
  const name = vertex.name.length > 22 ? `…${vertex.name.slice(-21)}` : vertex.name;
  const box = places.first([boxOf(ctx, name, at.x, at.y + r + 13, 10), boxOf(ctx, name, at.x, at.y - r - 4, 10)]);
  if (box) outlined(ctx, theme.ground, name, box.middle, box.foot, theme.muted);
}

function outlined(ctx, ground, text, x, y, colour) {
  ctx.lineWidth = 4;
  ctx.lineJoin = 'round';
  ctx.strokeStyle = ground;
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour;
  ctx.fillText(text, x, y);
}

/** What a mark says: how many, and how many there are each second; the shorter text is for where the longer one has no room. */
const lossTexts = (lost, now) => (now > 0 ? [`✕ ${short(lost)} +${perSecond(now)}`, `✕ ${short(lost)}`] : [`✕ ${short(lost)}`]);

/** At a node: what was lost inside. */
function markNode(p, at, r, { lost, now }, places, clear) {
  const up = r + 11;
  const around = (far) => [[far, 2 - r], [0, -up], [-far, 2 - r], [far, r - 2], [0, up], [-far, r - 2]].map(([dx, dy]) => ({ x: at.x + dx, y: at.y + dy }));
  mark(p, lossTexts(lost, now), (width) => around(r + 2 + width / 2), places, clear);
}

/** At the port that lost packets. On the left of the direction: packets that wait stand on its right. */
function markLoss(p, edge, forward, load, places) {
  const lost = load.lost + load.expired;
  if (!lost) return;
  const line = p.lines.get(edge);
  const lane = laneOffset(p.camera);
  const offset = p.camera.size > 0.5 ? -lane - 14 : lane;
  mark(p, lossTexts(lost, load.lostNow), () => [0.2, 0.3, 0.4, 0.12, 0.5].map((f) => pointOn(line, forward, f, offset)), places);
}

/**
 * A pill at the first point that is free, where no link passes if there is one. It is left out nowhere: where there is no room, it is a dot.
 * @param {(width: number) => {x: number, y: number}[]} pointsFor where the middle of one of this width may be
 */
function mark(p, texts, pointsFor, places, clear = () => true) {
  const { ctx, theme, camera } = p;
  ctx.font = font(11, 600);
  ctx.textAlign = 'center';
  for (const text of camera.size < 0.5 ? [] : texts) {
    const width = ctx.measureText(text).width + 12;
    const boxes = pointsFor(width).map(({ x, y }) => ({ x: x - width / 2, y: y - 9, w: width, h: 18 }));
    const box = places.first(boxes, clear) ?? places.first(boxes);
    if (!box) continue;
    ctx.fillStyle = theme.loss;
    ctx.beginPath();
    ctx.roundRect(box.x, box.y, box.w, box.h, 9);
    ctx.fill();
    ctx.fillStyle = theme.lossText;
    ctx.fillText(text, box.x + width / 2, box.y + 13);
    return;
  }
  const [at] = pointsFor(0);
  ctx.fillStyle = theme.loss;
  ctx.beginPath();
  ctx.arc(at.x, at.y, 4, 0, 7);
  ctx.fill();
}

/** Rates and latencies beside links: of the busiest first, where no other link and no other text is. */
function labelEdges(p, loads, places, clear) {
  const chosen = ({ edge }) => edge.id === p.hovered || p.selected === `link:${edge.from} > ${edge.to}` || p.selected === `link:${edge.to} > ${edge.from}`;
  const all = loads.length > mostLabelled ? loads.filter(chosen) : [...loads];
  const busy = ({ there, back }) => Math.max(there.bps ?? 0, back.bps ?? 0);
  all.sort((a, b) => chosen(b) - chosen(a) || busy(b) - busy(a));
  for (const { edge, there, back } of all) {
    const forward = (there.bps ?? 0) > (back.bps ?? 0) || ((there.bps ?? 0) === (back.bps ?? 0) && there.total >= back.total);
    labelEdge(p, edge, forward, forward ? there : back, places, (box) => clear(box, edge));
  }
}

const along = [0.5, 0.62, 0.38, 0.72, 0.28];

/** The busier direction's rate, latency and queue. */
function labelEdge(p, edge, forward, load, places, clear) {
  const line = p.lines.get(edge);
  if (!load.total || load.bps === 0 || line.length < 90) return;
  const { ctx, theme } = p;
  const arrow = Math.abs(line.ux) >= Math.abs(line.uy) ? (forward === line.ux > 0 ? '→' : '←') : (forward === line.uy > 0 ? '↓' : '↑');
  const first = load.bps ? `${arrow} ${rate(load.bps)}` : load.bps === undefined ? `${arrow} ${short(load.total)} ${load.total === 1 ? 'pkt' : 'pkts'}` : '';
  const second = load.queue > (load.p50 ?? 0) ? `queue ${duration(load.queue)}` : load.p50 !== undefined ? duration(load.p50) : '';
  const steep = Math.abs(line.uy) > 0.4;
  ctx.font = font(11);
  ctx.textAlign = 'center';
  const aside = laneOffset(p.camera) + 8;
  const write = (text, dy, side, colour) => {
    const half = ctx.measureText(text).width / 2;
    const boxes = along.map((f) => {
      const at = pointOn(line, forward, f, 0);
      const lean = Math.abs(line.uy) > 0.05 ? Math.abs(dy * line.ux / line.uy) : 0; // so far is the link aside at the text's height
      return steep ? boxOf(ctx, text, at.x + side * (aside / Math.abs(line.uy) + Math.min(lean, 30) * 0.5 + half), at.y + dy, 11) : boxOf(ctx, text, at.x, at.y + dy, 11);
    });
    const box = places.first(boxes, clear);
    if (box) outlined(ctx, theme.ground, text, box.middle, box.foot, colour);
    return box;
  };
  const slope = steep ? 0 : Math.abs(line.uy) * 26; // a text that is level needs room beside a link that is not
  if (first && !write(first, steep ? -3 : -12 - slope, 1, theme.text)) return;
  if (second) write(second, steep ? 12 : 22 + slope, 1, theme.muted);
}

const samples = 12; // of a curve

function pointsOf(line) {
  const n = line.curved ? samples : 1;
  return Array.from({ length: n + 1 }, (_, i) => pointOn(line, true, i / n, 0));
}

/** Whether a line through these points passes a box. */
export function crosses(points, box) {
  for (let i = 1; i < points.length; i++) {
    if (segmentIn(points[i - 1], points[i], box)) return true;
  }
  return false;
}

/** Clips a segment to a box (Liang and Barsky). */
function segmentIn(a, b, box) {
  let [low, high] = [0, 1];
  for (const [d, from, least, most] of [[b.x - a.x, a.x, box.x, box.x + box.w], [b.y - a.y, a.y, box.y, box.y + box.h]]) {
    if (d === 0) {
      if (from < least || from > most) return false;
      continue;
    }
    const [t0, t1] = [(least - from) / d, (most - from) / d].sort((x, y) => x - y);
    low = Math.max(low, t0);
    high = Math.min(high, t1);
  }
  return low <= high;
}
