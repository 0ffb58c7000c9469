// SPDX-License-Identifier: Apache-2.0
// The lower layer of the topology: links with their load, nodes, labels. It is drawn anew when something changes.

import { pointOn } from './camera.js';
import { latencyColour, rateWidth } from './theme.js';

const fonts = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
export const font = (size, weight = 400) => `${weight} ${size}px ${fonts}`;

/**
 * @typedef {{ctx: CanvasRenderingContext2D, camera: import('./camera.js').Camera, theme: any, graph: import('./model.js').Graph,
 *   lines: Map<object, any>, loadOf: (id: string) => any, selected: string, hovered: string, lit: Set<string>, nodeLost: Map<string, {lost: number, now: number}>}} Picture
 */

/** Draws links, then nodes. What is written about them is above the packets: see labels.js. @param {Picture} p */
export function drawBase(p) {
  const { ctx, camera, theme } = p;
  ctx.fillStyle = theme.ground;
  ctx.fillRect(0, 0, camera.width, camera.height);
  const loads = p.graph.edges.map((edge) => [edge, p.loadOf(`${edge.from} > ${edge.to}`), p.loadOf(`${edge.to} > ${edge.from}`)]);
  for (const [edge, there, back] of loads) drawEdge(p, edge, there, back);
  for (const vertex of p.graph.vertices.values()) drawVertex(p, vertex);
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
}
