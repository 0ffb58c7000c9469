// SPDX-License-Identifier: Apache-2.0
// The lower layer of the topology: links with their load, nodes, labels. It is drawn anew when something changes.

import { pointOn } from './camera.js';
import { latencyColour, rateWidth } from './theme.js';
import { duration, rate, short } from './format.js';

const fonts = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
export const font = (size, weight = 400) => `${weight} ${size}px ${fonts}`;

/**
 * @typedef {{ctx: CanvasRenderingContext2D, camera: import('./camera.js').Camera, theme: any, graph: import('./model.js').Graph,
 *   lines: Map<object, any>, loadOf: (id: string) => any, selected: string, hovered: string, lit: Set<string>, nodeLost: Map<string, number>}} Picture
 */

/** Draws links, then nodes, then what is written about them. @param {Picture} p */
export function drawBase(p) {
  const { ctx, camera, theme } = p;
  ctx.fillStyle = theme.ground;
  ctx.fillRect(0, 0, camera.width, camera.height);
  const loads = p.graph.edges.map((edge) => [edge, p.loadOf(`${edge.from} > ${edge.to}`), p.loadOf(`${edge.to} > ${edge.from}`)]);
  for (const [edge, there, back] of loads) drawEdge(p, edge, there, back);
  for (const vertex of p.graph.vertices.values()) drawVertex(p, vertex);
  const roomy = p.graph.edges.length <= 60;
  for (const [edge, there, back] of loads) {
    if (roomy || edge.id === p.hovered) labelEdge(p, edge, there, back);
    markLoss(p, edge, true, there);
    markLoss(p, edge, false, back);
  }
}

/** How far a lane is from the middle of its link. */
export const laneOffset = (camera) => Math.max(1.2, 4.2 * camera.size);

/** What a packet typically takes from port to port: its wait in the queue, and the link. */
const waitOf = (load) => (load.p50 === undefined && load.queue === undefined ? undefined : (load.p50 ?? 0) + (load.queue ?? 0));

function drawEdge(p, edge, there, back) {
  const { ctx, theme, camera } = p;
  const line = p.lines.get(edge);
  const lane = laneOffset(camera);
  const chosen = p.selected === `link:${edge.from} > ${edge.to}` || p.selected === `link:${edge.to} > ${edge.from}`;
  if (chosen || p.hovered === edge.id) stroke(ctx, line, true, 0, theme.selected, 4 * lane, chosen ? 0.35 : 0.18);
  if (edge.kind === 'tunnel') ctx.setLineDash([7, 4]);
  for (const [forward, load, id] of [[true, there, `${edge.from} > ${edge.to}`], [false, back, `${edge.to} > ${edge.from}`]]) {
    if (p.lit.has(id)) stroke(ctx, line, forward, lane, theme.selected, 9 * camera.size + 4, 0.45);
    const width = (load.used ? rateWidth(load.bps ?? 1e4) : 1.3) * Math.max(0.25, Math.min(1, camera.size * 1.4));
    stroke(ctx, line, forward, lane, load.used ? latencyColour(theme, waitOf(load)) : theme.idle, width, 1);
  }
  ctx.setLineDash([]);
}

function stroke(ctx, line, forward, offset, colour, width, alpha) {
  const a = pointOn(line, forward, 0, offset);
  const b = pointOn(line, forward, 1, offset);
  ctx.globalAlpha = alpha;
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  ctx.lineCap = 'round';
  ctx.beginPath();
  ctx.moveTo(a.x, a.y);
  if (line.curved) {
    const side = forward ? offset : -offset;
    ctx.quadraticCurveTo(line.cx - line.uy * side, line.cy + line.ux * side, b.x, b.y);
  } else ctx.lineTo(b.x, b.y);
  ctx.stroke();
  ctx.globalAlpha = 1;
}

/** The busier direction's rate, latency and queue, beside the link. */
function labelEdge(p, edge, there, back) {
  const forward = (there.bps ?? 0) > (back.bps ?? 0) || ((there.bps ?? 0) === (back.bps ?? 0) && there.total >= back.total);
  const load = forward ? there : back;
  const line = p.lines.get(edge);
  if (!load.total || line.length < 118) return;
  const arrow = Math.abs(line.ux) >= Math.abs(line.uy) ? (forward === line.ux > 0 ? '→' : '←') : (forward === line.uy > 0 ? '↓' : '↑');
  const first = load.bps ? `${arrow} ${rate(load.bps)}` : arrow;
  const second = load.queue > (load.p50 ?? 0) ? `queue ${duration(load.queue)}` : load.p50 !== undefined ? duration(load.p50) : '';
  const steep = Math.abs(line.uy) > 0.5;
  const at = pointOn(line, forward, steep ? 0.55 : 0.64, 0);
  const { ctx, theme } = p;
  ctx.font = font(11);
  ctx.textAlign = steep ? 'left' : 'center';
  const dx = steep ? 14 : 0;
  outlined(ctx, theme, first, at.x + dx, at.y - (steep ? 7 : 12), theme.text);
  if (second) outlined(ctx, theme, second, at.x + dx, at.y + (steep ? 8 : 22), theme.muted);
}

function outlined(ctx, theme, text, x, y, colour) {
  ctx.lineWidth = 4;
  ctx.lineJoin = 'round';
  ctx.strokeStyle = theme.ground;
  ctx.strokeText(text, x, y);
  ctx.fillStyle = colour;
  ctx.fillText(text, x, y);
}

/** A pill with a cross and the number, at the port that lost packets. */
function markLoss(p, edge, forward, load) {
  const lost = load.lost + load.expired;
  if (!lost) return;
  const lane = laneOffset(p.camera);
  // On the left of the direction: packets that wait stand on its right.
  const at = pointOn(p.lines.get(edge), forward, 0.2, p.camera.size > 0.5 ? -lane - 14 : lane);
  pill(p, at.x, at.y, lost);
}

/** Draws ✕ and a number. */
export function pill(p, x, y, lost) {
  const { ctx, theme, camera } = p;
  if (camera.size < 0.5) {
    ctx.fillStyle = theme.loss;
    ctx.beginPath();
    ctx.arc(x, y, 4, 0, 7);
    ctx.fill();
    return;
  }
  const text = `✕ ${short(lost)}`;
  ctx.font = font(11, 600);
  ctx.textAlign = 'center';
  const width = ctx.measureText(text).width + 12;
  ctx.fillStyle = theme.loss;
  ctx.beginPath();
  ctx.roundRect(x - width / 2, y - 9, width, 18, 9);
  ctx.fill();
  ctx.fillStyle = theme.lossText;
  ctx.fillText(text, x, y + 4);
}

const shapes = {
  namespace: (ctx, r) => ctx.arc(0, 0, r, 0, 2 * Math.PI),
  container: (ctx, r) => ctx.roundRect(-r, -r * 0.86, 2 * r, 1.72 * r, r * 0.35),
  vm: (ctx, r) => ctx.rect(-r, -r * 0.8, 2 * r, 1.6 * r),
  bridge: (ctx, r) => ctx.roundRect(-r * 1.15, -r * 0.7, 2.3 * r, 1.4 * r, r * 0.2),
  switch: (ctx, r) => ctx.roundRect(-r * 1.15, -r * 0.7, 2.3 * r, 1.4 * r, r * 0.2),
  p4: (ctx, r) => polygon(ctx, 6, r * 1.12, 0),
  reported: (ctx, r) => polygon(ctx, 4, r * 1.2, 0),
};

function polygon(ctx, n, r, turn) {
  for (let i = 0; i < n; i++) {
    const angle = turn + 2 * Math.PI * i / n;
    ctx[i ? 'lineTo' : 'moveTo'](r * Math.cos(angle), r * Math.sin(angle));
  }
  ctx.closePath();
}

function drawVertex(p, vertex) {
  const { ctx, camera, theme } = p;
  const at = camera.at(vertex);
  if (at.x < -60 || at.y < -60 || at.x > camera.width + 60 || at.y > camera.height + 60) return;
  if (vertex.kind !== 'node') {
    drawSmall(p, vertex, at);
    return;
  }
  const r = camera.radius(vertex);
  const chosen = p.selected === `node:${vertex.name}`;
  ctx.save();
  ctx.translate(at.x, at.y);
  ctx.fillStyle = theme.node;
  ctx.strokeStyle = chosen || p.hovered === vertex.id ? theme.selected : theme.edge;
  ctx.lineWidth = chosen ? 3.5 : Math.max(1, 1.8 * camera.size);
  if (vertex.class === 'reported') ctx.setLineDash([5, 3]);
  ctx.beginPath();
  (shapes[vertex.class] ?? shapes.namespace)(ctx, r);
  ctx.fill();
  ctx.stroke();
  ctx.restore();
  glyph(p, vertex, at, r);
  nameVertex(p, vertex, at, r);
  const lost = p.nodeLost.get(vertex.name);
  if (lost) pill(p, at.x + r * 0.8 + 10, at.y - r * 1.1, lost);
}

/** A switch has arrows, a P4 switch its name, a virtual machine a second frame. */
function glyph(p, vertex, at, r) {
  const { ctx, theme, camera } = p;
  if (camera.size < 0.6) return;
  ctx.strokeStyle = theme.edge;
  ctx.lineWidth = 1.2;
  if (vertex.class === 'vm') ctx.strokeRect(at.x - r + 3.5, at.y - r * 0.8 + 3.5, 2 * r - 7, 1.6 * r - 7);
  const word = { bridge: '⇄', switch: '⇄', p4: 'P4' }[vertex.class];
  if (!word) return;
  ctx.font = font(9 * camera.size, 600);
  ctx.textAlign = 'center';
  ctx.fillStyle = theme.muted;
  ctx.fillText(word, at.x, at.y + r * 0.52);
}

function nameVertex(p, vertex, at, r) {
  const { ctx, theme, camera } = p;
  if (camera.size < 0.42 && p.hovered !== vertex.id && p.selected !== `node:${vertex.name}`) return;
  const glyphed = ['bridge', 'switch', 'p4'].includes(vertex.class) && camera.size >= 0.6;
  const size = Math.max(10, Math.min(13, 13 * camera.size));
  ctx.font = font(size, 600);
  ctx.textAlign = 'center';
  if (ctx.measureText(vertex.name).width < 2 * r - 6) {
    ctx.fillStyle = theme.text;
    ctx.fillText(vertex.name, at.x, at.y + size * 0.36 - (glyphed ? 4 : 0));
  } else {
    outlined(ctx, theme, vertex.name.length > 18 ? `${vertex.name.slice(0, 17)}…` : vertex.name, at.x, at.y + r + size + 3, theme.text);
  }
}

/** Hubs of links with many ends, and what is outside. */
function drawSmall(p, vertex, at) {
  const { ctx, theme, camera } = p;
  const r = camera.radius(vertex);
  ctx.fillStyle = vertex.kind === 'hub' ? theme.edge : theme.ground;
  ctx.strokeStyle = theme.edge;
  ctx.lineWidth = 1.5;
  ctx.beginPath();
  if (vertex.kind === 'hub') ctx.roundRect(at.x - r * 1.6, at.y - r * 0.6, r * 3.2, r * 1.2, r * 0.6);
  else {
    ctx.setLineDash([3, 3]);
    ctx.arc(at.x, at.y, r, 0, 2 * Math.PI);
  }
  ctx.fill();
  ctx.stroke();
  ctx.setLineDash([]);
  if (camera.size < 0.6) return;
  ctx.font = font(10);
  ctx.textAlign = 'center';
  const name = vertex.name.length > 22 ? `…${vertex.name.slice(-21)}` : vertex.name;
  outlined(ctx, theme, name, at.x, at.y + r + 13, theme.muted);
}
