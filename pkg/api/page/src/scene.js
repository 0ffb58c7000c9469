// SPDX-License-Identifier: Apache-2.0
// The topology on two canvases: what seldom changes, and packets above it. One loop draws both.

import { Camera, distance, lineOf } from './camera.js';
import { drawBase, font } from './draw.js';
import { drawLabels } from './labels.js';
import { SVGContext } from './svg.js';
import { drawDots } from './dots.js';
import { colours } from './theme.js';
import * as store from './store.js';
import * as player from './player.js';

const captionHigh = 26;

export class Scene {
  /** Packets are on top of links and nodes, and what is written above them. @param {HTMLCanvasElement} base @param {HTMLCanvasElement} top @param {HTMLCanvasElement} labels @param {{select: (sel: string) => void, hover: (what: any) => void}} on */
  constructor(base, top, labels, on) {
    this.base = base;
    this.top = top;
    this.labels = labels;
    this.on = on;
    this.camera = new Camera();
    this.lines = new Map();
    this.hovered = '';
    this.dirty = true;
    this.shownGraph = undefined;
    this.pointers = new Map();
    this.loop = this.loop.bind(this);
    this.before = performance.now();
    this.listen();
    this.resize();
    this.running = requestAnimationFrame(this.loop);
  }

  stop() {
    cancelAnimationFrame(this.running);
    this.observer.disconnect();
  }

  /** Follows the size of the element, in the screen's own pixels. */
  resize() {
    const box = this.top.getBoundingClientRect();
    const ratio = Math.min(globalThis.devicePixelRatio || 1, 3);
    const { width, height } = box;
    if (!width || !height) return;
    for (const canvas of [this.base, this.top, this.labels]) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
    }
    const turned = Math.abs(Math.log(width / height) - Math.log(this.placedFor ?? 1e-9)) > 0.25;
    this.camera.width = width;
    this.camera.height = height;
    if (turned) {
      this.placedFor = width / height;
      store.arrange({ width, height });
    }
    if (!this.camera.touched) this.fit();
    this.dirty = true;
  }

  fit() {
    this.camera.fit([...store.graph.vertices.values()]);
    this.dirty = true;
  }

  zoom(factor) {
    this.camera.zoom(factor);
    this.dirty = true;
  }

  pan(dx, dy) {
    this.camera.pan(dx, dy);
    this.dirty = true;
  }

  loop(wall) {
    this.running = requestAnimationFrame(this.loop);
    const passed = Math.min(wall - this.before, 100);
    this.before = wall;
    if (this.shownGraph !== store.graph) {
      this.shownGraph = store.graph;
      if (!this.camera.touched) this.fit();
      this.dirty = true;
    }
    if (this.dirty) this.drawBase();
    const items = player.frame(passed, wall);
    if (items.length || this.hadItems) {
      const picture = this.picture(this.top);
      drawDots(picture, items);
      this.hadItems = items.length > 0;
    }
  }

  picture(canvas) {
    if (this.linesOf !== store.graph) this.setLines();
    const { sel } = store.state.value;
    return {
      ctx: canvas.getContext?.('2d') ?? canvas, camera: this.camera, theme: colours(store.theme.value), graph: store.graph, lines: this.lines,
      loadOf: store.loadOf, selected: sel, hovered: this.hovered, lit: this.lit ?? new Set(), nodeLost: this.nodeLost ?? new Map(),
      chosenPacket: sel.startsWith('packet:') ? sel.slice(7) : '', exact: store.state.value.mode === 'machine', places: this.places,
    };
  }

  drawBase() {
    this.dirty = false;
    this.setLines();
    drawBase(this.picture(this.base));
    this.places = drawLabels(this.picture(this.labels));
    this.hadItems = true; // packets are where links were: draw them, too
  }

  setLines() {
    this.linesOf = store.graph;
    this.lines.clear();
    for (const edge of store.graph.edges) this.lines.set(edge, lineOf(this.camera, edge));
  }

  /** What draws what is seen now: each layer on a context. */
  layers() {
    return [
      (ctx) => drawBase(this.picture(ctx)),
      (ctx) => drawDots(this.picture(ctx), player.frame(0, performance.now())),
      (ctx) => drawLabels(this.picture(ctx)),
    ];
  }

  /** The drawing as it is now, with a line below that says what it is of. @param {string} caption */
  toSVG(caption) {
    const { width, height } = this.camera;
    const measuring = document.createElement('canvas').getContext('2d');
    const ctx = new SVGContext(width, height + captionHigh, (of, text) => {
      measuring.font = of;
      return measuring.measureText(text).width;
    });
    for (const draw of this.layers()) draw(ctx);
    this.caption(ctx, caption);
    return ctx.toString();
  }

  /** The same as a PNG. @returns {Promise<Blob>} */
  toPNG(caption) {
    const { width, height } = this.camera;
    const [scale, canvas] = [2, document.createElement('canvas')];
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round((height + captionHigh) * scale);
    const whole = canvas.getContext('2d');
    for (const source of [this.base, this.top, this.labels]) whole.drawImage(source, 0, 0, canvas.width, Math.round(height * scale));
    whole.setTransform(scale, 0, 0, scale, 0, 0);
    this.caption(whole, caption);
    return new Promise((done) => { canvas.toBlob(done, 'image/png'); });
  }

  caption(ctx, text) {
    const theme = colours(store.theme.value);
    const { width, height } = this.camera;
    ctx.fillStyle = theme.ground;
    ctx.fillRect(0, height, width, captionHigh);
    ctx.font = font(12);
    ctx.textAlign = 'left';
    ctx.fillStyle = theme.muted;
    ctx.fillText(text, 12, height + 17);
  }

  listen() {
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.top);
    this.top.addEventListener('pointerdown', (e) => this.down(e));
    this.top.addEventListener('pointermove', (e) => this.move(e));
    for (const end of ['pointerup', 'pointercancel']) this.top.addEventListener(end, (e) => this.up(e));
    this.top.addEventListener('pointerleave', () => this.hover(undefined));
    this.top.addEventListener('wheel', (e) => {
      e.preventDefault();
      this.camera.zoom(Math.exp(-e.deltaY * 0.0015), e.offsetX, e.offsetY);
      this.dirty = true;
    }, { passive: false });
    this.top.addEventListener('dblclick', () => this.fit());
  }

  down(e) {
    this.top.setPointerCapture(e.pointerId);
    this.pointers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    this.moved = 0;
    this.held = this.pointers.size === 1 ? this.find(e.offsetX, e.offsetY) : undefined;
  }

  move(e) {
    const before = this.pointers.get(e.pointerId);
    if (!before) {
      this.hover(this.find(e.offsetX, e.offsetY), e);
      return;
    }
    const dx = e.offsetX - before.x;
    const dy = e.offsetY - before.y;
    this.moved += Math.abs(dx) + Math.abs(dy);
    if (this.pointers.size === 2) this.pinch(e);
    else if (this.held?.vertex && this.moved > 4) {
      this.held.vertex.x += dx / this.camera.k;
      this.held.vertex.y += dy / this.camera.k;
    } else this.camera.pan(dx, dy);
    this.pointers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    this.dirty = true;
  }

  pinch(e) {
    const other = [...this.pointers].find(([id]) => id !== e.pointerId)[1];
    const before = this.pointers.get(e.pointerId);
    const was = Math.hypot(before.x - other.x, before.y - other.y) || 1;
    const is = Math.hypot(e.offsetX - other.x, e.offsetY - other.y) || 1;
    this.camera.zoom(is / was, (e.offsetX + other.x) / 2, (e.offsetY + other.y) / 2);
  }

  up(e) {
    const alone = this.pointers.size === 1;
    this.pointers.delete(e.pointerId);
    if (!alone || this.moved > 6) return;
    const found = this.find(e.offsetX, e.offsetY);
    this.on.select(found?.vertex ? `node:${found.vertex.name}` : found ? `link:${found.id}` : '');
  }

  hover(found, e) {
    const id = found?.vertex?.id ?? found?.edge?.id ?? '';
    if (id !== this.hovered) {
      this.hovered = id;
      this.dirty = true;
    }
    this.top.classList.toggle('pointing', Boolean(found));
    this.on.hover(found && e ? { ...found, x: e.offsetX, y: e.offsetY } : undefined);
  }

  /** What is at a point: a node, or a direction of a link (the lane that is nearer). */
  find(x, y) {
    for (const vertex of store.graph.vertices.values()) {
      const at = this.camera.at(vertex);
      if (vertex.kind === 'node' && Math.hypot(at.x - x, at.y - y) <= Math.max(9, this.camera.radius(vertex) + 3)) return { vertex };
    }
    let best;
    let least = 11;
    for (const [edge, line] of this.lines) {
      const far = distance(line, x, y);
      if (far >= least) continue;
      least = far;
      const forward = (x - line.ax) * -line.uy + (y - line.ay) * line.ux >= 0;
      best = { edge, id: forward ? `${edge.from} > ${edge.to}` : `${edge.to} > ${edge.from}` };
    }
    return best;
  }
}
