// SPDX-License-Identifier: Apache-2.0
// Talks to the server. Errors are the server's own words (RFC 9457).

const base = '/api/v1';
const tokenKey = 'radar.token';

/** What the server refused, or why it was not reached. */
export class Failure extends Error {
  /** @param {number} status 0 without an answer @param {object} problem */
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.title = problem.title ?? '';
    /** @type {{location?: string, message: string}[]} */
    this.fields = Array.isArray(problem.errors) ? problem.errors : [];
  }

  /** One text with all that is known. */
  get text() {
    const fields = this.fields.map((e) => (e.location ? `${e.location}: ${e.message}` : e.message)).filter((m) => m && m !== this.message);
    return [this.message, ...fields].join(' · ');
  }
}

/** The token for what steers. It lasts as long as the tab, and is in no address. */
export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? '',
  set: (text) => (text ? sessionStorage.setItem(tokenKey, text) : sessionStorage.removeItem(tokenKey)),
};

/** The path of a domain's resource, with each part escaped. */
export const inDomain = (domain, ...parts) => ['', 'domains', domain, ...parts].map(encodeURIComponent).join('/');

/** Asks for JSON. @param {string} path @param {Object<string, any>} query @param {AbortSignal} [signal] */
export async function get(path, query = {}, signal = undefined) {
  return (await ask('GET', path + queryText(query), undefined, signal)).json();
}

/** Changes something. @returns the answer's JSON, if it has one */
export async function send(method, path, body) {
  const response = await ask(method, path, body);
  const text = await response.text();
  return text ? JSON.parse(text) : undefined;
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

async function ask(method, path, body, signal, accept = 'application/json, application/problem+json') {
  const headers = { Accept: accept };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  const end = signal ? AbortSignal.any([signal, left.signal]) : left.signal;
  try {
    response = await fetch(base + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: end, cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Failure(0, { title: 'no answer', detail: 'radar serve does not answer: is it still running?' });
  }
  if (response.ok) return response;
  let problem = { title: response.statusText };
  try {
    problem = await response.json();
  } catch { /* not JSON: the status is all there is */ }
  throw new Failure(response.status, problem);
}

/** Splits a stream of server-sent events. An event that is longer than limit is left out. */
export class EventSplitter {
  /** @param {(name: string, data: string) => void} take @param {number} limit */
  constructor(take, limit = 1 << 20) {
    this.take = take;
    this.limit = limit;
    this.rest = '';
    this.name = '';
    this.data = [];
    this.size = 0;
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
      if (this.data.length && this.size <= this.limit) this.take(this.name || 'message', this.data.join('\n'));
      this.name = '';
      this.data = [];
      this.size = 0;
    } else if (line.startsWith('event:')) this.name = line.slice(6).trim();
    else if (line.startsWith('data:')) {
      this.size += line.length;
      if (this.size <= this.limit) this.data.push(line.slice(5).replace(/^ /, ''));
    }
  }
}

/**
 * Listens to events until the signal aborts. It connects again after a pause when the connection ends. A stream
 * read by fetch, unlike an EventSource, can bear a token.
 * @param {{open: () => void, closed: (error: Failure) => void, event: (name: string, data: any) => void}} on
 */
export async function listen(path, query, on, signal) {
  for (let pause = 500; !signal.aborted; pause = Math.min(pause * 2, 15000)) {
    try {
      const response = await ask('GET', path + queryText(query), undefined, signal, 'text/event-stream');
      on.open();
      pause = 500;
      await readEvents(response, on.event);
      on.closed(new Failure(0, { detail: 'the stream of events ended' }));
    } catch (error) {
      if (error.name === 'AbortError') return;
      on.closed(error instanceof Failure ? error : new Failure(0, { detail: String(error.message) }));
    }
    await new Promise((done) => {
      setTimeout(done, pause);
    });
  }
}

async function readEvents(response, take) {
  const splitter = new EventSplitter((name, data) => {
    let value;
    try {
      value = JSON.parse(data);
    } catch {
      return;
    }
    take(name, value);
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    splitter.push(value);
  }
}
