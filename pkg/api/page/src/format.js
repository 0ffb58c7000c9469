// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.

/** A duration in nanoseconds: three digits and a unit. @param {number|undefined} ns */
export function duration(ns) {
  if (ns === undefined || ns === null || Number.isNaN(ns)) return '–';
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${digits(ns / 1e3)} µs`;
  if (size < 1e9) return `${digits(ns / 1e6)} ms`;
  return `${digits(ns / 1e9)} s`;
}

/** A rate in bits a second. @param {number|undefined} bps */
export function rate(bps) {
  if (bps === undefined || bps === null) return '–';
  return scaled(bps, ['bit/s', 'kbit/s', 'Mbit/s', 'Gbit/s', 'Tbit/s']);
}

/** A number of bytes. @param {number|undefined} n */
export function bytes(n) {
  if (n === undefined || n === null) return '–';
  return scaled(n, ['B', 'kB', 'MB', 'GB', 'TB']);
}

/** A count, with separators. @param {number|undefined} n */
export function count(n) {
  if (n === undefined || n === null) return '–';
  return Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ' ');
}

/** A count in few characters, for labels: 950, 3.56k, 12M. @param {number} n */
export function short(n) {
  for (const [size, unit] of [[1e9, 'G'], [1e6, 'M'], [1e4, 'k']]) {
    if (n >= size) return digits(n / (size === 1e4 ? 1e3 : size)) + unit;
  }
  return String(Math.round(n));
}

/** A share as per cent. @param {number} part @param {number} whole */
export function share(part, whole) {
  if (!whole) return '–';
  const value = part / whole * 100;
  return `${value && value < 0.1 ? '< 0.1' : value.toFixed(value < 10 ? 1 : 0)} %`;
}

/** How many a second. @param {number} n */
export const perSecond = (n) => `${n > 0 && n < 10 ? n.toFixed(1).replace(/\.0$/, '') : count(n)}/s`;

/** Why packets were lost, in the words of the command line's column WHY; the kernel's word where there are none. */
export const why = (row) => row.why || row.reason || (row.function ? `${row.function}()` : 'not known');

/** The kernel's own words for it, where they are others. */
export const reason = (row) => [row.reason, row.function && `${row.function}()`].filter((word) => word && word !== why(row)).join(', ');

const tcpLetters = 'FSRP.UEWe'; // from FIN on, as tcpdump writes them: "." is ACK

/** What a TCP header says, in the command line's words: [P.] seq 1001:2449 ack 77 win 501. Of other packets nothing. */
export function tcp({ tcp_flags: flags, tcp_seq: seq, tcp_payload: payload, tcp_ack: ack, tcp_window: window }) {
  if (flags === undefined || seq === undefined) return undefined;
  const letters = [...tcpLetters].filter((_, bit) => flags & (1 << bit)).join('') || 'none';
  const end = payload > 0 ? `:${(seq + payload) % 2 ** 32}` : '';
  return `[${letters}] seq ${seq}${end}${ack === undefined ? '' : ` ack ${ack}`}${window === undefined ? '' : ` win ${window}`}`;
}

/** The time of day of an RFC 3339 text, to the microsecond. @param {string|undefined} text */
export function clock(text) {
  const found = /T(\d\d:\d\d:\d\d(?:\.\d{1,6})?)/.exec(text ?? '');
  return found ? found[1] : text ?? '–';
}

/** A factor of speed: 1×, 1/1000. @param {number} speed */
export function factor(speed) {
  return speed >= 1 ? `${count(speed)}×` : `1/${count(1 / speed)}`;
}

function scaled(value, units) {
  let i = 0;
  while (Math.abs(value) >= 1000 && i < units.length - 1) {
    value /= 1000;
    i++;
  }
  return `${i === 0 ? Math.round(value) : digits(value)} ${units[i]}`;
}

function digits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}
