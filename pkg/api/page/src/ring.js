// SPDX-License-Identifier: Apache-2.0
// What is kept has a fixed size: the page may stay open for days.

/** The newest items of a stream. */
export class Ring {
  /** @param {number} size how many are kept */
  constructor(size) {
    this.items = new Array(size).fill(undefined);
    this.size = size;
    this.total = 0; // ever pushed
  }

  /** Adds an item. It returns the one that had to go, or undefined. */
  push(item) {
    const at = this.total++ % this.size;
    const gone = this.items[at];
    this.items[at] = item;
    return gone;
  }

  get length() {
    return Math.min(this.total, this.size);
  }

  /** The items, oldest first. */
  list() {
    const n = this.length;
    const all = new Array(n);
    for (let i = 0; i < n; i++) all[i] = this.items[(this.total - n + i) % this.size];
    return all;
  }

  clear() {
    this.items.fill(undefined);
    this.total = 0;
  }
}

/** A time series of several columns, in typed arrays of a fixed size. */
export class Series {
  /** @param {string[]} columns @param {number} size rows that are kept */
  constructor(columns, size) {
    this.columns = columns;
    this.size = size;
    this.total = 0;
    this.time = new Float64Array(size);
    this.values = columns.map(() => new Float32Array(size));
  }

  /** Adds a row; values that are not known are NaN. @param {number} time seconds @param {Object<string, number>} row */
  push(time, row) {
    const at = this.total++ % this.size;
    this.time[at] = time;
    this.columns.forEach((name, i) => {
      this.values[i][at] = row[name] ?? NaN;
    });
  }

  /** Rows as uPlot wants them, oldest first: [times, values of the first column, ...]. @param {string[]} names */
  table(names) {
    const n = Math.min(this.total, this.size);
    const chosen = names.map((name) => this.values[this.columns.indexOf(name)]);
    const out = [new Array(n), ...names.map(() => new Array(n))];
    for (let i = 0; i < n; i++) {
      const at = (this.total - n + i) % this.size;
      out[0][i] = this.time[at];
      chosen.forEach((values, c) => {
        out[c + 1][i] = Number.isNaN(values[at]) ? null : values[at];
      });
    }
    return out;
  }

  /** The newest value of a column, or undefined. @param {string} name */
  last(name) {
    if (!this.total) return undefined;
    const value = this.values[this.columns.indexOf(name)][(this.total - 1) % this.size];
    return Number.isNaN(value) ? undefined : value;
  }
}

/** A map that forgets the key that was set longest ago when it holds more than size. */
export class BoundedMap extends Map {
  /** @param {number} limit */
  constructor(limit) {
    super();
    this.limit = limit;
  }

  set(key, value) {
    this.delete(key);
    super.set(key, value);
    if (this.size > this.limit) this.delete(this.keys().next().value);
    return this;
  }
}
