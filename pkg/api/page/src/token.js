// SPDX-License-Identifier: Apache-2.0
// What steers needs the server's token. The page asks for it when the server does.

import { signal } from './lib/signals-core/signals-core.js';
import { html, Dialog, useState } from './ui.js';
import { token } from './api.js';

/** What waits for a token: called when there is one. */
const waiting = signal(undefined);

/** Opens the dialog, without anything that waits. */
export const askToken = () => {
  waiting.value = () => {};
};

/** Asks for the token, and waits until the user has closed the dialog. */
export const tokenAsked = () => new Promise((done) => {
  waiting.value = done;
});

/** Does what steers. If the server wants a token, the page asks for it, and tries once more. */
export async function attempt(what, fail) {
  try {
    return await what();
  } catch (error) {
    if (error.status !== 401 && error.status !== 403) {
      fail(error);
      return undefined;
    }
  }
  await tokenAsked();
  try {
    return await what();
  } catch (error) {
    fail(error);
    return undefined;
  }
}

export function TokenDialog() {
  const [text, setText] = useState('');
  if (!waiting.value) return null;
  const finish = (save) => {
    if (save) token.set(text.trim());
    const done = waiting.value;
    waiting.value = undefined;
    setText('');
    done();
  };
  return html`<${Dialog} title="The server's token" close=${() => finish(false)}>
    <p>Changes need the token that <code>radar serve</code> named when it started. It is kept until this tab is closed, and is in no address.</p>
    <form onSubmit=${(e) => { e.preventDefault(); finish(true); }}><label class="field">Token <input type="password" name="token" autocomplete="off" value=${text} onInput=${(e) => setText(e.target.value)} /></label>
    <div class="row end"><button type="button" onClick=${() => finish(false)}>Cancel</button><button class="primary" type="submit" disabled=${!text.trim()}>Use it</button></div></form><//>`;
}
