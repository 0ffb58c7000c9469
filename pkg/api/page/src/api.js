// SPDX-License-Identifier: Apache-2.0
// Talks to the server. Errors are the server's own words (RFC 9457). A question without an answer is asked again:
// browsers end all requests when an interface of their machine comes or goes, which containers do all the time.

import { signal } from './lib/signals-core/signals-core.js';

const base = '/api/v1';
const tokenKey = 'radar.token';

/** What the server refused, or why it was not reached. */
export class Failure extends Error {
  /**
   * @param {number} status 0 without an answer @param {object} problem
   * @param {{own?: boolean, after?: number}} [more] whether radar serve said it, not a proxy; the milliseconds until it may be asked again
   */
  constructor(status, problem, { own = false, after = 0 } = {}) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.own = own;
    this.after = after;
    this.title = problem.title ?? '';
    /** @type {{location?: string, message: string}[]} */
    this.fields = Array.isArray(problem.errors) ? problem.errors : [];
  }

  /** That the domain is not attached, in the command line's words; '' if it is another error. */
  get notAttached() {
    return this.status === 404 ? this.fields.find((e) => e.location === 'path.domain')?.message ?? '' : '';
  }

  /** One text with all that is known. */
  get text() {
    if (this.notAttached) return this.notAttached;
    const fields = this.fields.map((e) => (e.location ? `${e.location}: ${e.message}` : e.message)).filter((m) => m && m !== this.message);
    return [this.message, ...fields].join(' · ');
  }
}

/** Counts up when there is another token: what was refused without it may be asked again. */
export const tokens = signal(0);

/** The token for what steers. It lasts as long as the tab, and is in no address. */
export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? '',
  set: (text) => {
    if (text) sessionStorage.setItem(tokenKey, text);
    else sessionStorage.removeItem(tokenKey);
    tokens.value++;
  },
};

/** Why there is no answer to what is being asked again; '' if every question has one, or has just been asked. */
export const unanswered = signal('');

const askedAgain = new Map();

function setUnanswered(question, text) {
  if (text) askedAgain.set(question, text);
  else askedAgain.delete(question);
  unanswered.value = askedAgain.values().next().value ?? '';
}

const passing = new Set([0, 408, 429, 502, 503, 504]);

/** Reports whether the same question may have an answer later. Other errors are final. */
export const passes = (error) => error instanceof Failure && passing.has(error.status);

const firstPause = 100;
const longestPause = 10000;

const longestTimer = 2 ** 31 - 1; // a longer one fires at once

/** Waits before a request is made again: longer each time, as long as the server wants, and not when the signal aborts. */
const pause = (tries, after, signal) => new Promise((done) => {
  if (signal?.aborted) {
    done();
    return;
  }
  const end = () => {
    clearTimeout(timer);
    signal?.removeEventListener('abort', end);
    done();
  };
  const own = Math.min(firstPause * 2 ** (tries - 1), longestPause);
  const timer = setTimeout(end, Math.min(Math.max(own, after), longestTimer));
  signal?.addEventListener('abort', end);
});

/** Asks until there is an answer, or an error that is final: one that does not pass. */
async function untilAnswered(ask, signal, mayPass = passes) {
  const question = Symbol('question');
  try {
    for (let tries = 1; ; tries++) {
      let after;
      try {
        return await ask();
      } catch (error) {
        if (!mayPass(error)) throw error;
        after = error.after;
        if (tries > 1) setUnanswered(question, error.text); // once is soon over, and not worth a word
      }
      await pause(tries, after, signal);
    }
  } finally {
    setUnanswered(question, '');
  }
}

/** The path of a domain's resource, with each part escaped. */
export const inDomain = (domain, ...parts) => ['', 'domains', domain, ...parts].map(encodeURIComponent).join('/');

/** Asks for JSON. @param {string} path @param {Object<string, any>} query @param {AbortSignal} [signal] */
export const get = (path, query = {}, signal = undefined) => untilAnswered(async () => jsonOf(await ask('GET', path + queryText(query), undefined, signal)), signal);

/** A dry run asks devices. That one of them does not answer is what radar serve has found out, and the user is to see it. */
const passesInPreview = (error) => passes(error) && !(error.status === 504 && error.own);

/** Asks what a change would do. It changes nothing, so it may be asked again. @param {AbortSignal} signal of who wants to know */
export const preview = (path, change, signal) => untilAnswered(async () => jsonOf(await ask('POST', path, change, signal)), signal, passesInPreview);

/** Changes something, once. @returns the answer's JSON, if it has one */
export async function send(method, path, body) {
  try {
    return await jsonOf(await ask(method, path, body));
  } catch (error) {
    if (error.status !== 0) throw error;
    throw new Failure(0, { detail: 'radar serve did not answer: whether the change was made is not known. Look before you try again.' });
  }
}

async function jsonOf(response) {
  let text;
  try {
    text = await response.text();
  } catch (error) {
    throw lostConnection(error, 'the connection ended within an answer');
  }
  return text ? JSON.parse(text) : undefined;
}

/** What a request or its answer ended with. @returns {Error} */
function lostConnection(error, detail) {
  return error.name === 'AbortError' ? error : new Failure(0, { title: 'no answer', detail });
}

// A page that the user has left, and may come back to, must hold no connection: browsers open six to a server. So it
// ends all that it has asked, and begins anew when it is shown again.
const left = new AbortController();
globalThis.addEventListener?.('pagehide', () => left.abort());
globalThis.addEventListener?.('pageshow', (e) => e.persisted && location.reload());

function queryText(query) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== '' && value !== null) search.set(key, String(value));
  }
  const text = search.toString();
  return text ? `?${text}` : '';
}

async function ask(method, path, body, signal, more = {}) {
  const headers = { Accept: 'application/json, application/problem+json', ...more };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  const end = signal ? AbortSignal.any([signal, left.signal]) : left.signal;
  try {
    response = await fetch(base + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: end, cache: 'no-store' });
  } catch (error) {
    throw lostConnection(error, 'radar serve does not answer: is it still running? If not, start it again: radar serve');
  }
  if (response.ok) return response;
  let problem = { title: response.statusText };
  try {
    problem = await response.json();
  } catch { /* not JSON: the status is all there is */ }
  const own = (response.headers.get('Content-Type') ?? '').startsWith('application/problem+json');
  throw new Failure(response.status, problem, { own, after: retryAfter(response) });
}

/** How long the server wants not to be asked, in ms. A date, its other form, is none of radar serve's. */
function retryAfter(response) {
  const text = response.headers.get('Retry-After') ?? '';
  return /^\d+$/.test(text) ? Number(text) * 1000 : 0;
}

/** Splits a stream of server-sent events. An event that is longer than limit is left out. */
export class EventSplitter {
  /** @param {(name: string, data: string, id: string) => void} take @param {number} limit */
  constructor(take, limit = 1 << 20) {
    this.take = take;
    this.limit = limit;
    this.rest = '';
    this.id = ''; // of the last event that has come as a whole
    this.begin();
  }

  begin() {
    this.name = '';
    this.data = [];
    this.size = 0;
    this.nextId = this.id;
  }

  push(text) {
    this.rest += text;
    for (;;) {
      const end = this.rest.indexOf('\n');
      if (end < 0) break;
      this.line(this.rest.slice(0, end).replace(/\r$/, ''));
      this.rest = this.rest.slice(end + 1);
    }
    if (this.rest.length > this.limit) this.rest = '';
  }

  line(line) {
    if (line === '') {
      this.id = this.nextId;
      if (this.data.length && this.size <= this.limit) this.take(this.name || 'message', this.data.join('\n'), this.id);
      this.begin();
    } else if (line.startsWith('event:')) this.name = line.slice(6).trim();
    else if (line.startsWith('id:')) this.nextId = line.slice(3).trim();
    else if (line.startsWith('data:')) {
      this.size += line.length;
      if (this.size <= this.limit) this.data.push(line.slice(5).replace(/^ /, ''));
    }
  }
}

/**
 * Listens to events until the signal aborts. When the connection ends it connects again, and says which event it has
 * had last: the server goes on behind that one. A stream read by fetch, unlike an EventSource, can bear a token.
 * closed is told how often in a row nothing has come; refused ends it, for the error is final.
 * @param {{open: () => void, closed: (error: Failure, tries: number) => void, refused: (error: Failure) => void,
 *   event: (name: string, data: any, id: string) => void}} on
 */
export async function listen(path, query, on, signal) {
  let last = '';
  let tries = 0;
  const take = (name, data, id) => {
    try {
      on.event(name, JSON.parse(data), id);
    } catch (error) { // those behind it are none the worse
      globalThis.reportError(error);
    }
  };
  while (!signal.aborted) {
    let after = 0;
    const events = new EventSplitter(take);
    try {
      const more = { Accept: 'text/event-stream', ...(last && { 'Last-Event-ID': last }) };
      const response = await ask('GET', path + queryText(query), undefined, signal, more);
      on.open();
      await readStream(response, (text) => {
        tries = 0; // whatever it is: on a quiet domain only heartbeats come
        events.push(text);
      });
      throw new Failure(0, { detail: 'the stream of events ended' });
    } catch (error) {
      if (error.name === 'AbortError') return;
      if (!passes(error)) {
        on.refused(error);
        return;
      }
      after = error.after;
      on.closed(error, ++tries);
    }
    last = events.id || last;
    await pause(tries, after, signal);
  }
}

const longestSilence = 45000; // the server says every 15 s that it is still there

/** Hands on what comes, until the stream ends or is silent for too long. */
async function readStream(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let timer;
  try {
    for (;;) {
      clearTimeout(timer);
      timer = setTimeout(() => reader.cancel(), longestSilence);
      const { value, done } = await reader.read().catch((error) => {
        throw lostConnection(error, 'the connection was lost');
      });
      if (done) return;
      take(value);
    }
  } finally {
    clearTimeout(timer);
  }
}
