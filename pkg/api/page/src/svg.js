// SPDX-License-Identifier: Apache-2.0
// The drawing as SVG: what a canvas draws on is asked to write down the same instead.

const escape = (text) => String(text).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);
const number = (n) => String(Math.round(n * 100) / 100);

/** As much of a canvas's context as the drawing uses. Texts are measured by a canvas. */
export class SVGContext {
  /** @param {number} width @param {number} height @param {(font: string, text: string) => number} measure */
  constructor(width, height, measure) {
    Object.assign(this, { width, height, measure, parts: [], stack: [], path: '', dx: 0, dy: 0, dash: [] });
    Object.assign(this, { fillStyle: '#000', strokeStyle: '#000', lineWidth: 1, lineCap: 'butt', lineJoin: 'miter', globalAlpha: 1, font: '10px sans-serif', textAlign: 'left' });
  }

  save() {
    const { dx, dy, dash, fillStyle, strokeStyle, lineWidth, globalAlpha } = this;
    this.stack.push({ dx, dy, dash, fillStyle, strokeStyle, lineWidth, globalAlpha });
  }

  restore() {
    Object.assign(this, this.stack.pop());
  }

  translate(x, y) {
    this.dx += x;
    this.dy += y;
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  clearRect() {} // each layer begins empty

  beginPath() {
    this.path = '';
  }

  at(x, y) {
    return `${number(x + this.dx)} ${number(y + this.dy)}`;
  }

  moveTo(x, y) {
    this.path += `M${this.at(x, y)}`;
  }

  lineTo(x, y) {
    this.path += `L${this.at(x, y)}`;
  }

  quadraticCurveTo(cx, cy, x, y) {
    this.path += `Q${this.at(cx, cy)} ${this.at(x, y)}`;
  }

  closePath() {
    this.path += 'Z';
  }

  /** Whole circles alone are drawn. */
  arc(x, y, r) {
    this.path += `M${this.at(x - r, y)}a${number(r)} ${number(r)} 0 1 0 ${number(2 * r)} 0a${number(r)} ${number(r)} 0 1 0 ${number(-2 * r)} 0Z`;
  }

  rect(x, y, w, h) {
    this.path += `M${this.at(x, y)}h${number(w)}v${number(h)}h${number(-w)}Z`;
  }

  roundRect(x, y, w, h, radius) {
    const r = Math.min(radius, w / 2, h / 2);
    const turn = (dx, dy) => `a${number(r)} ${number(r)} 0 0 1 ${number(dx)} ${number(dy)}`;
    this.path += `M${this.at(x + r, y)}h${number(w - 2 * r)}${turn(r, r)}v${number(h - 2 * r)}${turn(-r, r)}h${number(2 * r - w)}${turn(-r, -r)}v${number(2 * r - h)}${turn(r, -r)}Z`;
  }

  alpha() {
    return this.globalAlpha < 1 ? ` opacity="${number(this.globalAlpha)}"` : '';
  }

  line() {
    const dash = this.dash.length ? ` stroke-dasharray="${this.dash.join(' ')}"` : '';
    return `fill="none" stroke="${escape(this.strokeStyle)}" stroke-width="${number(this.lineWidth)}" stroke-linecap="${this.lineCap}" stroke-linejoin="${this.lineJoin}"${dash}${this.alpha()}`;
  }

  fill() {
    if (this.path) this.parts.push(`<path d="${this.path}" fill="${escape(this.fillStyle)}"${this.alpha()}/>`);
  }

  stroke() {
    if (this.path) this.parts.push(`<path d="${this.path}" ${this.line()}/>`);
  }

  fillRect(x, y, w, h) {
    this.parts.push(`<rect x="${number(x + this.dx)}" y="${number(y + this.dy)}" width="${number(w)}" height="${number(h)}" fill="${escape(this.fillStyle)}"${this.alpha()}/>`);
  }

  strokeRect(x, y, w, h) {
    this.parts.push(`<rect x="${number(x + this.dx)}" y="${number(y + this.dy)}" width="${number(w)}" height="${number(h)}" ${this.line()}/>`);
  }

  measureText(text) {
    return { width: this.measure(this.font, text) };
  }

  text(text, x, y, paint) {
    const [, weight, size, family] = /^(\d+)? ?([\d.]+)px (.*)$/.exec(this.font) ?? [];
    const anchor = { center: 'middle', right: 'end' }[this.textAlign] ?? 'start';
    this.parts.push(`<text x="${number(x + this.dx)}" y="${number(y + this.dy)}" text-anchor="${anchor}" font-size="${size}" font-weight="${weight ?? 400}" font-family="${escape(family)}" ${paint}>${escape(text)}</text>`);
  }

  fillText(text, x, y) {
    this.text(text, x, y, `fill="${escape(this.fillStyle)}"${this.alpha()}`);
  }

  strokeText(text, x, y) {
    this.text(text, x, y, this.line());
  }

  /** The whole file. */
  toString() {
    const { width, height } = this;
    return `<svg xmlns="${namespace}" width="${number(width)}" height="${number(height)}" viewBox="0 0 ${number(width)} ${number(height)}">\n${this.parts.join('\n')}\n</svg>\n`;
  }
}

const namespace = ['http:', '', 'www.w3.org', '2000', 'svg'].join('/'); // a name, not an address
