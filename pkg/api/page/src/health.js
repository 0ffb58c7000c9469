// SPDX-License-Identifier: Apache-2.0
// Whether what is shown is still true: the server, the domain, its agent. What is wrong is said in the command line's words.

import { signal, computed } from './lib/signals-core/signals-core.js';

/** @typedef {{kind: string, text: string}} Trouble */

export const connected = signal({ ok: false, text: '' }); // to the stream of events
/** @type {import('./lib/signals-core/signals-core.js').Signal<Trouble[]>} */
export const notes = signal([]); // of the newest load event
export const detached = signal(''); // that the domain is, in words
export const silent = signal(0); // seconds for which a server that says something each second has said nothing

/** What a question ended with is said in one place: that the domain is not attached, of which all questions come, above. @returns {any} the error, if it is to be said where the answer would be */
export function notSaid(error) {
  if (!error?.notAttached) return error;
  detached.value = error.notAttached;
  return undefined;
}

const again = 'This page goes on by itself then.';

/** Why nothing more may come, the most important first. @returns {Trouble[]} */
function troubles() {
  const { ok, text, final } = connected.value;
  if (detached.value) return [{ kind: 'detached', text: `Nothing is measured: ${detached.value}` }];
  if (!ok && text) return [{ kind: 'server', text: final ? `Nothing new comes: ${text}` : `Nothing new comes: ${text}. ${again}` }];
  if (silent.value) return [{ kind: 'silent', text: `Nothing new comes: radar serve has said nothing for ${silent.value} s. It is stopped, or this machine is overloaded. ${again}` }];
  return notes.value.map(({ kind, text }) => ({ kind, text: text.charAt(0).toUpperCase() + text.slice(1) }));
}

export const trouble = computed(troubles);

const ends = ['detached', 'server', 'silent', 'no_nodes'];

/** Whether what is drawn is of the past, whatever it is. */
export const stale = computed(() => trouble.value.some((t) => ends.includes(t.kind)));

/** Whether what has come is told each second, were it nothing, and all is well: the green dot. */
export const alive = computed(() => connected.value.ok && !trouble.value.length);

const longest = 5; // seconds without a load event, which comes each second

/** Watches how long ago the last load event was. Of domains without a ring there is none. */
export class Watch {
  /** @param {() => number} now seconds */
  constructor(now) {
    this.now = now;
    this.heard = undefined;
  }

  /** A load event has come. */
  hear() {
    this.heard = this.now();
    silent.value = 0;
  }

  /** The stream has begun or ended, or nobody has looked for a while: from now on counts. */
  begin() {
    this.heard = undefined;
    silent.value = 0;
  }

  /** Looks how long nothing has come. */
  look() {
    if (this.heard === undefined) return;
    const seconds = Math.floor(this.now() - this.heard);
    silent.value = seconds >= longest ? seconds : 0;
  }
}
