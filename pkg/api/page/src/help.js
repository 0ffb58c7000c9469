// SPDX-License-Identifier: Apache-2.0
// What keys do, and what the page shows.

import { html, Dialog } from './ui.js';
import * as store from './store.js';

const keys = [
  ['Space', 'pause and play; from live into the time machine (topology)'], ['← →', 'to the event before, to the next one'], ['[ ]', 'slower, faster'], ['l', 'live'],
  ['1 to 6', 'topology, packets, flows, paths, losses, INT'], ['/', 'to the filter'], ['f', 'show the whole topology'], ['+ −', 'zoom'],
  ['Shift + arrows', 'move the drawing, when it has the focus'], ['Esc', 'choose nothing, close'], ['t', 'dark, light'], ['?', 'this help'],
];

export function Help() {
  return html`<${Dialog} title="Keys, and what is shown" close=${() => { store.help.value = false; }} wide>
    <dl class="keys-list">${keys.map(([key, what]) => html`<div><dt>${key.split(' ').map((k) => (/^(to|\+)$/.test(k) && key !== '+ −' ? ` ${k} ` : html`<kbd>${k}</kbd> `))}</dt><dd>${what}</dd></div>`)}</dl>
    <h3>The drawing</h3>
    <p>A link has two lanes, one for each direction, on the right-hand side. A lane's width is its rate, its colour the median latency of the last second. Grey: nothing passed. Violet: something passed, and nobody knows how long it took.
      A mark with a cross says how many packets were lost at that port, or inside that node, since radar was attached, and how many are lost each second.</p>
    <p><b>Live</b>, a sample of packets moves. Each is slowed so that every link can be seen; how long it stays where is in proportion to what was measured.
      In the <b>time machine</b> packets are exactly where they were: choose the speed, step from event to event, or follow one flow. A packet that was lost falls where it was lost. Marks are of the packets that are loaded, until the moment that is shown. The other views count what was sent until then, and say so.</p>
    <p>The filter is in tcpdump’s language, such as <code>udp and dst port 53</code>. All that you choose is in the address: send it to share what you see.</p><//>`;
}
