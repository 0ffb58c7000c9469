// SPDX-License-Identifier: Apache-2.0
// Where on the screen the drawing is, and where things are on their links.

import { bounds, margins } from './layout.js';

export const nodeRadius = 22;

/** Pan and zoom. World coordinates are those of the layout. */
export class Camera {
  constructor() {
    this.k = 1;
    this.x = 0;
    this.y = 0;
    this.width = 1;
    this.height = 1;
    this.touched = false; // the user has moved it
  }

  /** Shows all vertices. */
  fit(vertices) {
    this.touched = false;
    if (!vertices.length) return;
    const box = bounds(vertices);
    const buttons = 36;
    const margin = { x: Math.min((margins.width - buttons) / 2, this.width / 8), y: Math.min(margins.height / 2, this.height / 7) };
    const wide = Math.max(box.right - box.left, 1);
    const high = Math.max(box.bottom - box.top, 1);
    this.k = Math.min(1.9, (this.width - buttons - 2 * margin.x) / wide, (this.height - 2 * margin.y) / high);
    this.k = Math.max(this.k, 0.02);
    this.x = (this.width - buttons) / 2 - this.k * (box.left + box.right) / 2;
    this.y = (this.height - 10) / 2 - this.k * (box.top + box.bottom) / 2;
  }

  /** Zooms by a factor about a point of the screen. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const k = Math.min(6, Math.max(0.02, this.k * factor));
    this.x = x - (x - this.x) * k / this.k;
    this.y = y - (y - this.y) * k / this.k;
    this.k = k;
    this.touched = true;
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.touched = true;
  }

  /** World to screen. */
  at(p) {
    return { x: this.x + this.k * p.x, y: this.y + this.k * p.y };
  }

  /** Screen to world. */
  world(x, y) {
    return { x: (x - this.x) / this.k, y: (y - this.y) / this.k };
  }

  /** How large things are drawn: they shrink less than distances do. */
  get size() {
    return Math.min(1.25, Math.max(0.2, this.k ** 0.8));
  }

  radius(vertex) {
    return nodeRadius * this.size * (vertex.kind === 'node' ? 1 : 0.45);
  }
}

/**
 * A link on the screen: from the rim of one node to that of the other. bend curves those that run beside others.
 * @param {Camera} camera @param {import('./model.js').Edge} edge
 */
export function lineOf(camera, edge) {
  const a = camera.at(edge.a);
  const b = camera.at(edge.b);
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const ux = (b.x - a.x) / length;
  const uy = (b.y - a.y) / length;
  const bend = edge.bend * 34 * camera.size;
  const ra = Math.min(camera.radius(edge.a), length / 2);
  const rb = Math.min(camera.radius(edge.b), length / 2);
  return {
    ax: a.x + ux * ra, ay: a.y + uy * ra, bx: b.x - ux * rb, by: b.y - uy * rb,
    cx: (a.x + b.x) / 2 - uy * bend * 2, cy: (a.y + b.y) / 2 + ux * bend * 2, ux, uy, length, curved: bend !== 0,
  };
}

/** A point on a direction's lane, f from 0 (its beginning) to 1. offset is to the right of the direction. */
export function pointOn(line, forward, f, offset) {
  const p = forward ? f : 1 - f;
  const side = forward ? offset : -offset;
  let x = line.ax + (line.bx - line.ax) * p;
  let y = line.ay + (line.by - line.ay) * p;
  if (line.curved) {
    const q = 1 - p;
    x = q * q * line.ax + 2 * q * p * line.cx + p * p * line.bx;
    y = q * q * line.ay + 2 * q * p * line.cy + p * p * line.by;
  }
  return { x: x - line.uy * side, y: y + line.ux * side };
}

/** How far a point is from a link. */
export function distance(line, x, y) {
  let best = Infinity;
  for (let i = 0; i <= 12; i++) {
    const p = pointOn(line, true, i / 12, 0);
    const q = pointOn(line, true, Math.min(1, (i + 1) / 12), 0);
    best = Math.min(best, segmentDistance(p, q, x, y));
  }
  return best;
}

function segmentDistance(p, q, x, y) {
  const dx = q.x - p.x;
  const dy = q.y - p.y;
  const part = Math.max(0, Math.min(1, ((x - p.x) * dx + (y - p.y) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - p.x - part * dx, y - p.y - part * dy);
}
