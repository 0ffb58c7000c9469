// SPDX-License-Identifier: Apache-2.0
import test from 'node:test';
import assert from 'node:assert/strict';
import { get, listen, passes, preview, send, unanswered, Failure } from '../src/api.js';

globalThis.sessionStorage = { getItem: () => null };

/** Has fetch do one thing after the other, and gives what was asked for. */
function serve(...answers) {
  const asked = [];
  globalThis.fetch = async (url, options) => {
    options.signal?.throwIfAborted();
    asked.push({ url, method: options.method, last: options.headers['Last-Event-ID'], unanswered: unanswered.value });
    return answers.shift()();
  };
  return asked;
}

const lost = () => { throw new TypeError('Failed to fetch'); };
const json = (value, status = 200, headers = {}) => () => new Response(JSON.stringify(value), { status, headers });
const text = (...parts) => new ReadableStream({
  pull(to) {
    if (parts.length) to.enqueue(new TextEncoder().encode(parts.shift()));
    else to.error(new TypeError('network error'));
  },
});
const broken = (...parts) => () => new Response(text(...parts));
const status = (error) => error.status;

test('a question without an answer is asked until there is one, and the page can say so', async () => {
  const asked = serve(lost, broken('{"a":'), lost, json({ detail: 'busy' }, 503), json({ a: 1 }));
  assert.deepEqual(await get('/domains'), { a: 1 });
  assert.equal(asked.length, 5);
  assert.deepEqual(asked.slice(0, 2).map((a) => a.unanswered), ['', '']); // one interruption says nothing
  assert.match(asked[2].unanswered, /within an answer/);
  assert.match(asked[3].unanswered, /does not answer/);
  assert.match(asked[4].unanswered, /busy/);
  assert.equal(unanswered.value, '');
});

test('errors that are final are not asked about again', async () => {
  for (const final of [400, 401, 403, 404, 409, 422, 500]) {
    const asked = serve(json({ detail: 'no' }, final));
    assert.equal(await get('/domains').catch(status), final);
    assert.equal(asked.length, 1);
    assert.ok(!passes(new Failure(final, {})));
  }
});

test('a change is made once, and whether it was made is said to be unknown', async () => {
  const asked = serve(lost);
  await assert.rejects(send('DELETE', '/x'), /not known/);
  assert.equal(asked.length, 1);
  serve(json({ detail: 'refused' }, 409));
  assert.equal(await send('DELETE', '/x').catch(status), 409);
});

test('who does not want an answer any more asks no further', async () => {
  const stop = new AbortController();
  const asked = serve(lost, () => { stop.abort(); return lost(); });
  await assert.rejects(get('/domains', {}, stop.signal), { name: 'AbortError' });
  assert.equal(asked.length, 2);
  assert.equal(unanswered.value, '');
});

/** Has timers fire at once. @returns what they were set to */
function timersOf(t) {
  const set = [];
  const real = setTimeout;
  t.mock.method(globalThis, 'setTimeout', (fire, ms) => {
    set.push(ms);
    return real(fire, 0);
  });
  return set;
}

test('a server that says when to ask again is not asked before', async (t) => {
  const set = timersOf(t);
  const busy = (after, status = 503) => json({ detail: 'busy' }, status, { 'Retry-After': after });
  serve(busy('2'), busy('1', 429), busy('0'), busy('Sat, 28 Nov 2026 00:00:00 GMT'), busy('99999999'), json({ a: 1 }));
  assert.deepEqual(await get('/domains'), { a: 1 });
  assert.deepEqual(set, [2000, 1000, 400, 800, 2 ** 31 - 1]);
  set.length = 0;
  await heard(busy('3'), gone);
  assert.deepEqual(set, [3000]);
});

const problem = { 'Content-Type': 'application/problem+json' };

test('a device that does not answer a dry run is the answer, and is not asked again', async () => {
  const asked = serve(json({ detail: 'device r1: context deadline exceeded' }, 504, problem), json([]));
  await assert.rejects(preview('/plan', {}, new AbortController().signal), { status: 504, message: /r1/ });
  assert.equal(asked.length, 1);
});

test('a dry run that a proxy or a busy server did not answer is asked for again', async () => {
  const asked = serve(json({}, 504, { 'Content-Type': 'text/html' }), json({ detail: 'busy' }, 503, problem), json([]));
  assert.deepEqual(await preview('/plan', {}, new AbortController().signal), []);
  assert.equal(asked.length, 3);
});

test('who does not want a dry run any more asks no further', async () => {
  const stop = new AbortController();
  const asked = serve(lost, () => { stop.abort(); return lost(); }, json([]));
  await assert.rejects(preview('/plan', {}, stop.signal), { name: 'AbortError' });
  assert.equal(asked.length, 2);
});

/** Listens until the stream is refused. */
async function heard(...answers) {
  const asked = serve(...answers);
  const log = [];
  await listen('/events', {}, {
    open: () => log.push('open'), closed: (error, tries) => log.push(`closed ${tries}`), refused: (error) => log.push(`refused ${error.status}`),
    event: (name, data, id) => log.push(`${id} ${name} ${data.n}`),
  }, new AbortController().signal);
  return { log, last: asked.map((a) => a.last) };
}

const gone = json({ detail: 'no such domain' }, 404);

test('a stream that breaks goes on behind the last event that has come as a whole', async () => {
  const { log, last } = await heard(
    broken('id: e-7\n\n'), lost, broken('id: e-8\nevent: load\ndata: {"n":1}\n\nid: e-9\nevent: load\ndata: {"n":'),
    broken('id: e-8\n\nid: e-9\nevent: load\ndata: {"n":2}\n\n'), gone);
  assert.deepEqual(last, [undefined, 'e-7', 'e-7', 'e-8', 'e-9']);
  assert.deepEqual(log, ['open', 'closed 1', 'closed 2', 'open', 'e-8 load 1', 'closed 1', 'open', 'e-9 load 2', 'closed 1', 'refused 404']);
});

test('an event that the page cannot take does not end the stream', async () => {
  const errors = [];
  globalThis.reportError = (error) => errors.push(error.name);
  const { log } = await heard(broken('id: e-1\ndata: {\n\nid: e-2\ndata: {"n":2}\n\n'), gone);
  assert.deepEqual(log, ['open', 'e-2 message 2', 'closed 1', 'refused 404']);
  assert.deepEqual(errors, ['SyntaxError']);
});

test('interruptions add up only if nothing at all has come between them', async () => {
  const { log } = await heard(broken(': still here\n\n'), broken(), lost, broken(': still here\n\n'), broken(': still here\n\n'), gone);
  assert.deepEqual(log.filter((l) => l.startsWith('closed')), ['closed 1', 'closed 2', 'closed 3', 'closed 1', 'closed 1']);
});
