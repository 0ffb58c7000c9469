// SPDX-License-Identifier: Apache-2.0
// What lists and panels say in the time machine of the time that they are of.

import { html } from './ui.js';
import { clock } from './format.js';
import * as store from './store.js';
import * as player from './player.js';

/** The moment until which packets were sent, and how to ask the command line for the same. */
function Moment({ range: { at, since, until } }) {
  return html`<time datetime=${at} title=${`As radar says with ${since ? `--since ${since} ` : ''}--until ${until}`}>${clock(at)}</time>`;
}

/** Ends the title of a list. Live it says nothing. */
export function Until() {
  const range = store.pastRange.value;
  return range && html` <span class="until">until <${Moment} range=${range} /></span>`;
}

/** Leads from a list of the past to what is now, or to all that there is. */
export function ToLive() {
  const to = store.whole.value ? `the whole ${store.whole.value}` : 'live';
  return store.pastRange.value && html`<button title="End the time machine (l)" onClick=${player.goLive}>Back to ${to}</button>`;
}

/** Says at the head of a panel of what it is. */
export function SentUntil() {
  const range = store.pastRange.value;
  if (!range) return null;
  return html`<p class="muted until">Of packets sent ${range.since && store.shownPast.value ? html`from ${clock(range.since)} ` : ''}until <${Moment} range=${range} />.</p>`;
}
