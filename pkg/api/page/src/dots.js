// SPDX-License-Identifier: Apache-2.0
// The upper layer of the topology: packets, at each frame.

import { pointOn } from './camera.js';
import { laneOffset, font } from './draw.js';
import { packetColour } from './theme.js';
import { positions } from './journey.js';
import { way } from './model.js';
import { why } from './format.js';
import { fallLasts } from './player.js';

const mostInQueue = 14; // dots that are drawn of a queue; the rest is a number

/** Draws packets. @param {import('./draw.js').Picture & {chosenPacket: string, exact: boolean, places?: import('./labels.js').Places}} p @param {ReturnType<import('./player.js').frame>} items */
export function drawDots(p, items) {
  p.ctx.clearRect(0, 0, p.camera.width, p.camera.height);
  const queues = new Map();
  const falls = new Map();
  for (const item of items) {
    for (const { segment, part } of positions(item.journey, item.t)) {
      if (segment.kind === 'link') drawMoving(p, item.journey, segment, part);
      else if (segment.kind === 'node') drawInside(p, item.journey, segment, part);
      else {
        const key = `${segment.from.node}/${segment.from.port}`;
        if (!queues.has(key)) queues.set(key, []);
        queues.get(key).push({ journey: item.journey, segment });
      }
    }
  }
  for (const waiting of queues.values()) drawQueue(p, waiting);
  for (const item of items) { // above those that wait
    for (const fall of item.journey.falls) {
      const ago = item.ago(fall.t);
      if (ago >= 0 && ago < fallLasts) drawFall(p, item.journey, fall, ago / fallLasts, falls);
    }
  }
  const said = [];
  for (const [text, at] of falls) sayReason(p, text, at, said);
}

function dot(p, journey, x, y, alpha = 1) {
  const { ctx, theme, camera } = p;
  const chosen = journey.id === p.chosenPacket;
  const r = Math.max(2, (chosen ? 6.5 : 4.2) * Math.min(1, camera.size + 0.15));
  ctx.globalAlpha = alpha;
  ctx.fillStyle = packetColour(theme, journey.record.proto);
  ctx.strokeStyle = chosen ? theme.text : theme.ground;
  ctx.lineWidth = chosen ? 2.5 : 1.2;
  ctx.beginPath();
  ctx.arc(x, y, r, 0, 2 * Math.PI);
  ctx.fill();
  ctx.stroke();
  ctx.globalAlpha = 1;
  if (chosen) p.chosenAt = { x, y };
}

function drawMoving(p, journey, { from, to }, part) {
  const edges = way(p.graph, from.node, from.port, to.node, to.port);
  const lane = laneOffset(p.camera);
  if (edges.length) {
    const leg = Math.min(edges.length - 1, Math.floor(part * edges.length));
    const { edge, forward } = edges[leg];
    const at = pointOn(p.lines.get(edge), forward, part * edges.length - leg, lane);
    dot(p, journey, at.x, at.y);
    return;
  }
  const a = p.graph.vertices.get(from.node);
  const b = p.graph.vertices.get(to.node);
  if (!a || !b) return;
  const s = p.camera.at(a);
  const e = p.camera.at(b);
  dot(p, journey, s.x + (e.x - s.x) * part, s.y + (e.y - s.y) * part);
}

/** Inside a node a packet crosses it, from one port to the other. */
function drawInside(p, journey, { from, to }, part) {
  const vertex = p.graph.vertices.get(from.node);
  if (!vertex) return;
  const a = rim(p, vertex, from.port);
  const b = rim(p, vertex, to.port);
  dot(p, journey, a.x + (b.x - a.x) * part, a.y + (b.y - a.y) * part);
}

/** Where a port is at its node; the middle if that is not known. */
function rim(p, vertex, port) {
  const found = port !== undefined ? p.graph.byPort.get(`${vertex.name}/${port}`) : undefined;
  return found ? pointOn(p.lines.get(found.edge), found.forward, 0, 0) : p.camera.at(vertex);
}

/** Packets in a queue stand beside the port, the next to leave is nearest to the link. */
function drawQueue(p, waiting) {
  const { node, port } = waiting[0].segment.from;
  const found = p.graph.byPort.get(`${node}/${port}`);
  waiting.sort((a, b) => a.segment.t1 - b.segment.t1);
  const gap = 9 * Math.min(1, p.camera.size + 0.1);
  const lane = laneOffset(p.camera);
  const spot = (i) => {
    if (found) return pointOn(p.lines.get(found.edge), found.forward, 0.08, lane + (i + 0.5) * gap);
    const vertex = p.graph.vertices.get(node);
    const at = vertex ? p.camera.at(vertex) : { x: -99, y: -99 };
    return { x: at.x + p.camera.radius(vertex ?? { kind: 'node' }) + (i + 0.5) * gap, y: at.y };
  };
  const chosen = waiting.findIndex((w) => w.journey.id === p.chosenPacket);
  waiting.slice(0, mostInQueue).forEach((w, i) => {
    const at = spot(i);
    dot(p, w.journey, at.x, at.y);
  });
  if (chosen >= mostInQueue) {
    const at = spot(mostInQueue);
    dot(p, waiting[chosen].journey, at.x, at.y);
  }
  if (waiting.length < 3 || !p.exact) return; // live, each is slowed: they do not wait at once
  const text = `${waiting.length} wait`;
  const drawn = Math.min(waiting.length, mostInQueue) + (chosen >= mostInQueue ? 1 : 0);
  const [last, end] = [spot(drawn - 1), spot(drawn)];
  const on = Math.hypot(end.x - last.x, end.y - last.y) || 1; // the text begins where the row ends, whichever way it goes
  p.ctx.font = font(11, 600);
  p.ctx.textAlign = 'center';
  p.ctx.fillStyle = p.theme.muted;
  p.ctx.fillText(text, end.x + (end.x - last.x) / on * p.ctx.measureText(text).width / 2, end.y + 4 + (end.y - last.y) / on * 6);
}

/** Where a loss is on the screen. */
export function placeOfFall(p, fall) {
  const found = fall.port !== undefined ? p.graph.byPort.get(`${fall.node}/${fall.port}`) : undefined;
  const vertex = p.graph.vertices.get(fall.node);
  if (found && fall.at !== 'node') {
    const f = fall.at === 'link' ? 0.5 : fall.at === 'ingress' ? 0.02 : 0.08;
    return pointOn(p.lines.get(found.edge), found.forward, f, laneOffset(p.camera));
  }
  return vertex ? p.camera.at(vertex) : undefined;
}

function drawFall(p, journey, fall, part, texts) {
  const at = placeOfFall(p, fall);
  if (!at) return;
  const depth = 110 * part * part;
  const drift = (hash(journey.id) - 0.5) * 40 * part;
  dot(p, journey, at.x + drift, at.y + depth, 1 - part * part);
  const { ctx, theme } = p;
  ctx.strokeStyle = theme.loss;
  ctx.globalAlpha = 1 - part;
  ctx.lineWidth = 2.4;
  ctx.beginPath();
  for (const [dx, dy] of [[1, 1], [1, -1]]) {
    ctx.moveTo(at.x - 6 * dx, at.y - 6 * dy);
    ctx.lineTo(at.x + 6 * dx, at.y + 6 * dy);
  }
  ctx.stroke();
  ctx.globalAlpha = 1;
  const text = `${why(fall)} at ${fall.node}${fall.port && fall.at !== 'node' ? `/${fall.port}` : ''}`;
  const said = texts.get(text);
  if (texts.size < 6 || said) texts.set(text, { ...at, alpha: Math.max(said?.alpha ?? 0, 1 - part * part) });
}

/** Below where packets fall, at the first place where nothing else is written. */
function sayReason(p, text, at, said) {
  const { ctx, theme } = p;
  ctx.font = font(12, 600);
  const width = ctx.measureText(text).width;
  const left = Math.min(Math.max(at.x + 16, 8), p.camera.width - width - 12);
  const boxOf = (y) => ({ x: left - 2, y: y - 13, w: width + 4, h: 17 });
  const meets = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
  const lines = [58, 78, 98, 38, 118, -34].map((down) => Math.min(at.y + down, p.camera.height - 8));
  const y = lines.find((line) => (p.places?.free(boxOf(line)) ?? true) && !said.some((box) => meets(box, boxOf(line)))) ?? lines[0];
  said.push(boxOf(y));
  ctx.textAlign = 'left';
  ctx.globalAlpha = at.alpha;
  ctx.lineWidth = 4;
  ctx.lineJoin = 'round';
  ctx.strokeStyle = theme.ground;
  ctx.strokeText(text, left, y);
  ctx.fillStyle = theme.loss;
  ctx.fillText(text, left, y);
  ctx.globalAlpha = 1;
}

function hash(text) {
  let h = 0;
  for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) | 0;
  return (h >>> 0) / 2 ** 32;
}
