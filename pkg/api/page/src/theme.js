// SPDX-License-Identifier: Apache-2.0
// Colours for the canvas, which knows no style sheet. All scales differ in lightness, so that they can be told
// apart without colours; marks have shapes, too. Losses are vermilion, as in the palette of Okabe and Ito.

const latencyStops = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8]; // ns

const dark = {
  ground: '#0e141b', text: '#e6edf3', muted: '#93a1ae', idle: '#33404d', untimed: '#9b8cf0', node: '#1b2530', edge: '#5b6b7a', selected: '#4cc2ff',
  loss: '#ff7a45', lossText: '#12060a', latency: ['#3f6fd1', '#3fa3c4', '#59c48d', '#b3d655', '#f5df4d', '#fff6c2'],
  protocols: { tcp: '#56b4e9', udp: '#e69f00', icmp: '#19c296', icmpv6: '#19c296', other: '#d78bb8' },
};
const light = {
  ground: '#f7f9fb', text: '#14202b', muted: '#566472', idle: '#c9d3dc', untimed: '#6a5acd', node: '#ffffff', edge: '#7d8b98', selected: '#0b69a3',
  loss: '#c23b00', lossText: '#ffffff', latency: ['#7cc7d8', '#3fa0c9', '#2f74b8', '#3b4da3', '#4b2a80', '#4a0d4f'],
  protocols: { tcp: '#0072b2', udp: '#b36b00', icmp: '#00795a', icmpv6: '#00795a', other: '#9c4f7c' },
};

/** The colours of a theme. @param {'dark'|'light'} name */
export const colours = (name) => (name === 'light' ? light : dark);

/** The colour of a latency in nanoseconds. Of links whose latency nobody knows it is another one. */
export function latencyColour(theme, ns) {
  if (ns === undefined || ns === null) return theme.untimed;
  const x = Math.log10(Math.max(ns, latencyStops[0])) - 3;
  const i = Math.min(Math.floor(x), theme.latency.length - 2);
  return mix(theme.latency[i], theme.latency[i + 1], Math.min(1, x - i));
}

/** What the legend shows: a colour at each power of ten. */
export const legend = (theme) => latencyStops.map((ns, i) => ({ ns, colour: theme.latency[i] }));

/** The width of a link in pixels, for a rate in bits a second. */
export function rateWidth(bps) {
  if (!bps) return 1.5;
  return Math.min(9, 2 + Math.max(0, Math.log10(bps) - 3) * 1.15);
}

/** The colour of a packet. */
export const packetColour = (theme, proto) => theme.protocols[proto] ?? theme.protocols.other;

const channel = (colour, at) => parseInt(colour.slice(at, at + 2), 16);

function mix(a, b, part) {
  const of = (at) => Math.round(channel(a, at) + (channel(b, at) - channel(a, at)) * part);
  return `rgb(${of(1)},${of(3)},${of(5)})`;
}
