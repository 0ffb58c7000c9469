// SPDX-License-Identifier: Apache-2.0
// The dry run: what each device would get. Nothing is applied that was not shown here.

import { html, Problem, useEffect, useState } from './ui.js';
import { preview, inDomain } from './api.js';
import { attempt } from './token.js';
import { rowsOf } from './int-view.js';
import * as store from './store.js';

/** @param {{change: object, verb: string, apply: () => Promise<any>, done: () => void, back?: () => void}} props */
export function Plan({ change, verb, apply, done, back }) {
  const [plan, setPlan] = useState(undefined);
  const [error, setError] = useState(undefined);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const closed = new AbortController();
    const fail = (e) => e.name !== 'AbortError' && setError(e);
    attempt(() => preview(inDomain(store.state.value.domain, 'int', 'plan'), change, closed.signal), fail)
      .then((answer) => answer !== undefined && setPlan(rowsOf(answer)));
    return () => closed.abort(); // nobody sees the answer
  }, []);
  const go = async () => {
    setBusy(true);
    setError(undefined);
    let failed = false;
    await attempt(apply, (e) => {
      failed = true;
      setError(e);
    });
    setBusy(false);
    if (!failed) done();
  };
  const refused = plan?.filter((d) => d.refused?.length || d.error).length ?? 0;
  return html`<p>What each device would get. Nothing has been changed yet.</p><${Problem} error=${error} />
    ${!plan && !error && html`<p class="muted">Asking the devices…</p>`}
    ${plan && html`<div class="plan" aria-label="Dry run">${plan.length === 0 && html`<p class="empty">No device would change.</p>`}${plan.map((d) => html`<${DevicePlan} device=${d} />`)}</div>`}
    ${refused > 0 && html`<p class="problem">${refused} of ${plan.length} devices cannot do it.</p>`}
    <div class="row end">${back && html`<button onClick=${back}>Back</button>`}
      <button class="primary" disabled=${!plan || busy} onClick=${go}>${busy ? 'Applying…' : verb}</button></div>`;
}

function DevicePlan({ device }) {
  const lines = device.lines ?? [];
  return html`<section><h4>${device.device} ${device.refused?.length > 0 && html`<span class="tag lost">refused</span>`} ${device.approximated?.length > 0 && html`<span class="tag warn">approximated</span>`}</h4>
    ${[...(device.refused ?? []), ...(device.approximated ?? [])].map((r) => html`<p class="muted">${r.field && html`<code>${r.field}</code>: `}${r.text}</p>`)}
    ${device.error && html`<p class="loss-text">${device.error}</p>`}
    ${lines.length ? html`<pre>${lines.join('\n')}</pre>` : !device.error && html`<p class="muted">nothing changes</p>`}</section>`;
}
