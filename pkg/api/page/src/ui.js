// SPDX-License-Identifier: Apache-2.0
// What all parts of the page are made of. Text always goes in as text: nothing from the network is ever markup.

import { h, Fragment } from './lib/preact/preact.js';
import { useEffect, useLayoutEffect, useRef, useState } from './lib/preact/hooks.js';
import './lib/signals/signals.js'; // components that read a signal follow it
import htm from './lib/htm/htm.js';
import { get, inDomain, tokens } from './api.js';
import { notSaid } from './health.js';
import * as store from './store.js';

export const html = htm.bind(h);
export { Fragment, useEffect, useLayoutEffect, useRef, useState };

const settles = 150; // ms for which the time machine's moment stays before something is asked of it

/** Errors that stay as they are until the question or the token is another one. */
const final = [400, 401, 403, 422];

/**
 * Asks the server a question of the domain, again every so many milliseconds while the page is seen.
 * @param {string[]} parts of the path @param {object} query @param {number} [every]
 * @returns {{answer: any, error: any, busy: boolean, again: () => void}}
 */
export function useAsk(parts, query, every = 0) {
  const [result, setResult] = useState({ answer: undefined, error: undefined, busy: true });
  const again = useRef(() => {});
  const { domain } = store.state.value;
  const past = store.pastRange.value !== undefined;
  const period = past ? 0 : every; // what was does not change
  const key = JSON.stringify([domain, parts, query, tokens.value]);
  useEffect(() => {
    if (!domain || !parts) return undefined;
    let question = new AbortController();
    let timer;
    const stop = () => {
      clearTimeout(timer);
      question.abort();
    };
    const ask = async () => {
      stop(); // one question at a time: each goes on until it has an answer
      question = new AbortController();
      const { signal } = question;
      try {
        const answer = await get(inDomain(domain, ...parts), query, signal);
        if (signal.aborted) return;
        setResult({ answer, error: undefined, busy: false });
      } catch (error) {
        if (signal.aborted || error.name === 'AbortError') return;
        setResult((before) => ({ ...before, error: notSaid(error), busy: false }));
        if (final.includes(error.status)) return;
      }
      if (period) later();
    };
    const later = () => {
      timer = setTimeout(() => (document.hidden ? later() : ask()), period);
    };
    again.current = ask;
    setResult((before) => ({ ...before, busy: true, error: undefined }));
    if (past) timer = setTimeout(ask, settles);
    else ask();
    return () => {
      stop();
      again.current = () => {};
    };
  }, [key, period]);
  return { ...result, again: () => again.current() };
}

/** An error of the server, in its words. */
export function Problem({ error }) {
  if (!error) return null;
  const fields = (error.fields ?? []).filter((f) => f.message);
  return html`<div class="problem" role="alert"><strong>${error.message}</strong>
    ${fields.length > 0 && html`<ul>${fields.map((f) => html`<li>${f.location && html`<code>${f.location}</code>`} ${f.message}</li>`)}</ul>`}</div>`;
}

/** The notes of an answer: what its rows do not say. */
export function Notes({ notes }) {
  if (!notes?.length) return null;
  return html`<ul class="notes">${notes.map((n) => html`<li>${n.text ?? n.kind}</li>`)}</ul>`;
}

/** A question's state: error, notes, and a word if there is nothing. */
export function Answer({ ask, empty, children }) {
  const rows = ask.answer?.rows;
  return html`<${Problem} error=${ask.error} />
    ${!ask.answer && ask.busy && html`<p class="muted loading">Asking…</p>`}
    ${rows?.length === 0 && html`<p class="empty">${empty}</p>`}
    ${rows?.length > 0 && children}
    <${Notes} notes=${ask.answer?.notes} />`;
}

/**
 * A table. Columns are {name, of, number, title}; of makes the cell's content of a row.
 * A row is chosen by a click, or by Enter.
 */
export function Table({ caption, columns, rows, choose, chosen, keyOf }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`${caption}: table`}><table>
    <caption class="sr">${caption}</caption>
    <thead><tr>${columns.map((c) => html`<th scope="col" class=${c.number ? 'number' : ''} title=${c.title}>${c.name}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyOf(row)} class=${choose ? (chosen === keyOf(row) ? 'choice chosen' : 'choice') : ''}
      tabindex=${choose ? 0 : undefined} onClick=${choose && (() => choose(row))}
      onKeyDown=${choose && ((e) => e.key === 'Enter' && choose(row))}>
      ${columns.map((c) => html`<td class=${[c.number ? 'number' : '', c.class ?? ''].join(' ')}>${c.of(row)}</td>`)}</tr>`)}
    </tbody></table></div>`;
}

/** Pairs of names and values. */
export function Facts({ facts }) {
  return html`<dl class="facts">${facts.filter(([, value]) => value !== undefined && value !== '' && value !== null).map(([name, value]) =>
    html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** A dialog over the page. Escape closes it. */
export function Dialog({ title, close, children, wide }) {
  const ref = useRef(null);
  useEffect(() => {
    ref.current.showModal();
    return () => ref.current?.close();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? 'wide' : ''} aria-label=${title} onCancel=${(e) => { e.preventDefault(); close(); }}
    onClick=${(e) => e.target === ref.current && close()}>
    <header><h2>${title}</h2><button class="quiet" onClick=${close} aria-label="Close">✕</button></header>
    <div class="body">${children}</div></dialog>`;
}

const icons = {
  play: 'M6 4l14 8-14 8z', pause: 'M6 4h4v16H6zM14 4h4v16h-4z', next: 'M5 4l11 8-11 8zM17 4h3v16h-3z', previous: 'M19 4L8 12l11 8zM4 4h3v16H4z',
  sun: 'M12 7a5 5 0 100 10 5 5 0 000-10zM11 1h2v4h-2zM11 19h2v4h-2zM1 11h4v2H1zM19 11h4v2h-4zM4 5.4L5.4 4l2.8 2.8-1.4 1.4zM15.8 17.2l1.4-1.4L20 18.6 18.6 20zM4 18.6l2.8-2.8 1.4 1.4L5.4 20zM15.8 6.8L18.6 4 20 5.4l-2.8 2.8z',
  fit: 'M3 3h7v2H5v5H3zM14 3h7v7h-2V5h-5zM3 14h2v5h5v2H3zM19 14h2v7h-7v-2h5z', save: 'M11 3h2v9l3.500-3.500 1.400 1.400L12 15.800l-5.900-5.900 1.400-1.400L11 12zM4 17h2v2h12v-2h2v4H4z', picture: 'M3 4h18v16H3zM5 6v9l4-4 4 4 2-2 4 4V6zM15 8a1.500 1.500 0 110 3 1.500 1.500 0 010-3z', plus: 'M11 5h2v6h6v2h-6v6h-2v-6H5v-2h6z', minus: 'M5 11h14v2H5z',
  key: 'M14 2a6 6 0 00-5.7 7.9L2 16.2V22h5.8v-3h3v-3h2.5l.8-.8A6 6 0 1014 2zm2 3.500a2 2 0 110 4 2 2 0 010-4z',
};

/** A button with a picture. Its label is for those who do not see it, and its title. */
export function IconButton({ icon, label, onClick, pressed, disabled }) {
  return html`<button class="icon" aria-label=${label} title=${label} aria-pressed=${pressed} disabled=${disabled} onClick=${onClick}>
    <svg viewBox="0 0 24 24" width="18" height="18" aria-hidden="true"><path d=${icons[icon]} fill="currentColor" /></svg></button>`;
}
