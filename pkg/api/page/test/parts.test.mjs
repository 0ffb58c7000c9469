// SPDX-License-Identifier: Apache-2.0
// Parts of the page ask only as long as they are seen. They are drawn on a document that can do no more than hold them.
import test from 'node:test';
import assert from 'node:assert/strict';
import { h, render } from '../src/lib/preact/preact.js';
import { html, useAsk } from '../src/ui.js';
import { Plan } from '../src/int-plan.js';
import { LossesView, PathsView } from '../src/views.js';
import { Header } from '../src/header.js';
import { ToLive } from '../src/moment.js';
import { TimeBar } from '../src/timebar.js';
import * as health from '../src/health.js';
import * as store from '../src/store.js';

globalThis.sessionStorage = { getItem: () => null };

let changed = () => {};

class Node {
  constructor(name, data = '') {
    Object.assign(this, { localName: name, nodeType: name ? 1 : 3, data, childNodes: [], attributes: [], parentNode: null, namespaceURI: '', style: {} });
  }

  get firstChild() { return this.childNodes[0] ?? null; }
  get nextSibling() { return this.parentNode?.childNodes[this.parentNode.childNodes.indexOf(this) + 1] ?? null; }
  get textContent() { return this.data + this.childNodes.map((c) => c.textContent).join(''); }
  contains(node) { return node === this || this.childNodes.some((c) => c.contains(node)); }
  removeChild(node) {
    this.childNodes.splice(this.childNodes.indexOf(node), 1);
    node.parentNode = null;
  }

  insertBefore(node, next) {
    node.parentNode?.removeChild(node);
    const at = next ? this.childNodes.indexOf(next) : this.childNodes.length;
    this.childNodes.splice(at, 0, node);
    node.parentNode = this;
    changed();
  }

  appendChild(node) { this.insertBefore(node, null); }
  remove() { this.parentNode?.removeChild(this); }
  setAttribute() {}
  removeAttribute() {}
  addEventListener() {}
  removeEventListener() {}
}

globalThis.document = { hidden: false, createElementNS: (_, name) => new Node(name), createTextNode: (text) => new Node('', text) };
globalThis.requestAnimationFrame = setImmediate;
globalThis.cancelAnimationFrame = clearImmediate;
store.state.value = { ...store.state.value, domain: 'lab' };

/** Draws a part. */
function drawn(part) {
  const root = new Node('main');
  render(part, root);
  return { root, close: () => render(null, root) };
}

/** Takes questions, each of which waits for its answer. @returns {{asked: object[], next: () => Promise<object>}} */
function serve() {
  const asked = [];
  const waiting = [];
  globalThis.fetch = (url, { signal }) => new Promise((answer, fail) => {
    signal.addEventListener('abort', () => fail(signal.reason));
    const question = { url, signal, answer: (value, status = 200) => answer(new Response(JSON.stringify(value), { status, headers: { 'Content-Type': status === 200 ? 'application/json' : 'application/problem+json' } })) };
    asked.push(question);
    waiting.shift()?.();
  });
  let taken = 0;
  const next = async () => {
    if (asked.length === taken) await new Promise((done) => waiting.push(done));
    return asked[taken++];
  };
  return { asked, next };
}

/** Waits until a text is there. Without anything else to come, node ends the test. */
const shows = (root, text) => new Promise((done) => {
  changed = () => root.textContent.includes(text) && done();
  changed();
});

/** Waits until nobody wants the answer: what a part leaves behind is cleared away after the next frame. */
const ended = ({ signal }) => signal.aborted || new Promise((done) => signal.addEventListener('abort', done));

const plan = () => html`<${Plan} change=${{ remove: 'a' }} verb="Remove" apply=${() => {}} done=${() => {}} />`;

test('a dry run ends with its dialog', async () => {
  const { next } = serve();
  const { close } = drawn(plan());
  const question = await next();
  assert.ok(!question.signal.aborted);
  close();
  await ended(question);
});

test('a dry run shows which device does not answer', async () => {
  const { asked, next } = serve();
  const { root, close } = drawn(plan());
  (await next()).answer({ detail: 'device r1 does not answer' }, 504);
  await shows(root, 'device r1 does not answer');
  assert.equal(asked.length, 1);
  close();
});

test('a question that is asked anew takes the place of the one before', async () => {
  const { next } = serve();
  let ask;
  const Part = () => {
    ask = useAsk(['int', 'config'], {});
    return html`<p>${ask.answer?.n}</p>`;
  };
  const { root, close } = drawn(h(Part));
  const first = await next();
  ask.again();
  const second = await next();
  assert.ok(first.signal.aborted);
  assert.ok(!second.signal.aborted);
  ask.again();
  const third = await next();
  assert.ok(second.signal.aborted);
  third.answer({ n: 'third' });
  await shows(root, 'third');
  close();
});

test('that the domain is not attached is said once, above all views, in the command line\'s words', async () => {
  const { next } = serve();
  const { root, close } = drawn(html`<${LossesView} />`);
  const message = 'domain "lab" is not attached (attach nodes with: radar attach NODE...)';
  const problem = { title: 'Not Found', detail: 'no such domain', errors: [{ message, location: 'path.domain' }] };
  (await next()).answer(problem, 404);
  (await next()).answer(problem, 404);
  while (root.textContent.includes('Asking')) await new Promise(setImmediate);
  assert.deepEqual(health.trouble.value.map((t) => t.text), [`Nothing is measured: ${message}`]);
  assert.doesNotMatch(root.textContent, /no such domain|path\.domain|not attached/);
  health.detached.value = '';
  close();
});

test('what is not seen any more asks nothing', async () => {
  const { asked, next } = serve();
  let ask;
  const Part = () => {
    ask = useAsk(['int', 'config'], {});
    return null;
  };
  const { close } = drawn(h(Part));
  const question = await next();
  close();
  await ended(question);
  ask.again();
  assert.equal(asked.length, 1);
});

test('the share of a path is of all packets, and those that were not seen again are there', async () => {
  const { next } = serve();
  const { root, close } = drawn(h(PathsView));
  (await next()).answer({ rows: [{ path: 'a > b', packets: 60, lost: 0, flows: 2 }, { path: 'a > c', packets: 30, lost: 1, flows: 1 }, { path: 'a', packets: 10, lost: 3, expired: 7, flows: 1 }] });
  await shows(root, 'a › c');
  for (const text of ['60 %', '30 %', '10 %', 'expired']) assert.ok(root.textContent.includes(text), text);
  close();
});

test('a recording is called one, and nothing of it is live', () => {
  const whole = { recording: 'recording', capture: 'capture' };
  for (const [source, text] of [['recording', 'A recording'], ['capture', 'Reports in a capture'], ['reports', 'Reports of switches'], ['ring', 'Waiting']]) {
    store.domains.value = [{ name: 'lab', source }];
    const before = store.state.value;
    const { root, close } = drawn(html`<${TimeBar} /><${Header} />`);
    store.state.value = { ...before, mode: 'machine', t: '5.000000000' };
    const past = drawn(html`<${ToLive} />`);
    const all = `${root.textContent} ${past.root.textContent}`;
    assert.ok(root.textContent.includes(text), root.textContent);
    if (whole[source]) {
      assert.doesNotMatch(all, /live|attach/i);
      for (const words of ['The whole', 'the whole', 'Back to the whole']) assert.ok(all.includes(`${words} ${source}`), all);
    } else for (const words of ['Live', 'since attach', 'Back to live']) assert.ok(all.includes(words), all);
    past.close();
    close();
    store.state.value = before;
  }
});
