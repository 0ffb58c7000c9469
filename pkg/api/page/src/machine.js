// SPDX-License-Identifier: Apache-2.0
// The time machine: which packets are where at any moment of what was measured.

/** A sequence of journeys, and a clock that moves over them at any speed. */
export class Machine {
  constructor() {
    this.load([]);
    this.t = 0;
  }

  /** Takes the packets of an answer. @param {import('./journey.js').Journey[]} journeys */
  load(journeys) {
    this.journeys = [...journeys].sort((a, b) => a.start - b.start);
    this.longest = 0;
    const times = new Set();
    for (const journey of this.journeys) {
      this.longest = Math.max(this.longest, journey.end - journey.start);
      times.add(journey.start);
      for (const s of journey.segments) times.add(s.t0).add(s.t1);
      for (const fall of journey.falls) times.add(fall.t);
    }
    this.events = Float64Array.from(times).sort();
    this.first = this.events[0] ?? 0;
    this.last = this.events[this.events.length - 1] ?? 0;
  }

  /** The journeys that are under way at t, or ended not longer than hold before. @param {number} t @param {number} hold */
  active(t, hold = 0) {
    const found = [];
    const low = t - this.longest - hold;
    for (let i = this.lowerBound(low); i < this.journeys.length; i++) {
      const journey = this.journeys[i];
      if (journey.start > t) break;
      if (journey.end + hold >= t) found.push(journey);
    }
    return found;
  }

  lowerBound(start) {
    let low = 0;
    let high = this.journeys.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.journeys[middle].start < start) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The time of the next event after t, or the last one. */
  next(t) {
    for (let low = 0, high = this.events.length; ;) {
      if (low >= high) return this.events[low] ?? this.last;
      const middle = (low + high) >> 1;
      if (this.events[middle] <= t) low = middle + 1;
      else high = middle;
    }
  }

  /** The time of the event before t, or the first one. */
  previous(t) {
    let low = 0;
    let high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle] < t) low = middle + 1;
      else high = middle;
    }
    return this.events[low - 1] ?? this.first;
  }

  /**
   * Lets time pass: passed nanoseconds of the wall, at a speed. Where nothing is under way for longer than
   * idle nanoseconds of the wall, it goes to the next packet at once. @returns {boolean} false at the end
   */
  advance(passed, speed, idle = 5e8) {
    this.t += passed * speed;
    if (this.t >= this.last) {
      this.t = this.last;
      return false;
    }
    if (this.active(this.t, idle * speed).length === 0) {
      const ahead = this.journeys[this.lowerBound(this.t)];
      if (ahead && ahead.start - this.t > idle * speed) this.t = ahead.start;
    }
    return true;
  }

  /** How many packets begin, and are lost, in each of n equal parts of the time. */
  histogram(n) {
    const sent = new Uint32Array(n);
    const lost = new Uint32Array(n);
    const width = Math.max(this.last - this.first, 1);
    const part = (t) => Math.min(n - 1, Math.max(0, Math.floor((t - this.first) / width * n)));
    for (const journey of this.journeys) {
      sent[part(journey.start)]++;
      for (const fall of journey.falls) lost[part(fall.t)]++;
    }
    return { sent, lost };
  }
}

/** A slider's position, 0 to 1, for a speed between 1 and a ten-millionth, and back. */
export const speedOfSlider = (x) => 10 ** (-7 * (1 - x));
export const sliderOfSpeed = (speed) => 1 + Math.log10(speed) / 7;
