// SPDX-License-Identifier: Apache-2.0
// The form for an intent. What it offers is what the devices say that they can do.

import { html, Dialog, Problem, useState } from './ui.js';
import { send, inDomain } from './api.js';
import { Plan } from './int-plan.js';
import { intentOf, offered } from './intent.js';
import * as store from './store.js';

const empty = { name: '', kind: 'fields', src: '', dst: '', proto: '', sport: '', dport: '', dscp: '', expr: '', states: [], mode: '', sample: '1', hops: '', priority: '0', lifetime: '', fallback: 'refuse', devices: [] };

const lifetimes = [['', 'for ever'], ['300', '5 minutes'], ['3600', '1 hour'], ['86400', '1 day']];

export function IntentForm({ devices, close, done }) {
  const [values, setValues] = useState(empty);
  const [wrong, setWrong] = useState(undefined);
  const [intent, setIntent] = useState(undefined);
  const can = offered(devices);
  const set = (name) => (e) => setValues({ ...values, [name]: e.target.value });
  const toggle = (name, value) => () => setValues({ ...values, [name]: values[name].includes(value) ? values[name].filter((v) => v !== value) : [...values[name], value] });
  const preview = (e) => {
    e.preventDefault();
    try {
      setIntent(intentOf(values));
      setWrong(undefined);
    } catch (error) {
      setWrong({ message: error.message });
    }
  };
  const { domain } = store.state.value;
  if (intent) {
    return html`<${Dialog} title=${`Dry run: ${intent.name}`} close=${close} wide><${Plan} change=${{ add: intent }} verb="Apply" back=${() => setIntent(undefined)}
      apply=${() => send('POST', inDomain(domain, 'int', 'intents'), intent)} done=${done} /><//>`;
  }
  const field = (name, label, hint, more = {}) => html`<label class="field">${label}<input name=${name} value=${values[name]} onInput=${set(name)} placeholder=${hint} spellcheck=${false} autocomplete="off" ...${more} /></label>`;
  const choice = (name, label, options) => html`<label class="field">${label}<select name=${name} value=${values[name]} onChange=${set(name)}>${options.map(([v, text]) => html`<option value=${v}>${text}</option>`)}</select></label>`;
  const checks = (name, label, options) => html`<fieldset><legend>${label}</legend><div class="checks">${options.map((o) => html`<label><input type="checkbox" name=${name} value=${o} checked=${values[name].includes(o)} onChange=${toggle(name, o)} /> ${o}</label>`)}</div></fieldset>`;
  return html`<${Dialog} title="Add an intent" close=${close} wide><form class="intent" onSubmit=${preview}>
    <${Problem} error=${wrong} />
    ${field('name', 'Name', 'web', { required: true, pattern: '[A-Za-z0-9_.\\-]+', maxlength: 64 })}
    <fieldset><legend>Which traffic</legend>
      <div class="row">${['fields', 'expr'].map((k) => html`<label><input type="radio" name="kind" value=${k} checked=${values.kind === k} disabled=${k === 'expr' && !can.expressions} onChange=${set('kind')} /> ${k === 'fields' ? 'by fields' : 'by expression'}</label>`)}</div>
      ${values.kind === 'expr' ? field('expr', 'Expression, in tcpdump’s language', 'tcp dst port 80')
        : html`<div class="grid">${choice('proto', 'Protocol', [['', 'TCP and UDP'], ['tcp', 'TCP'], ['udp', 'UDP']])}
          ${field('src', 'From', '10.0.1.0/24')}${field('sport', 'From port', '1000-2000')}${field('dst', 'To', '10.0.4.2')}${field('dport', 'To port', '80, 443')}${field('dscp', 'DSCP', 'any', { inputmode: 'numeric' })}</div>`}
    </fieldset>
    ${checks('states', 'What to observe (none: the default)', can.states)}
    <div class="grid">${choice('mode', 'Mode', [['', 'default (INT-MD)'], ...can.modes.map((m) => [m, m.toUpperCase()])])}
      ${field('sample', 'One packet in', '1', { type: 'number', min: 1, disabled: !can.sampling })}${field('hops', 'Nodes at most', '8', { type: 'number', min: 1, max: 255 })}
      ${field('priority', 'Priority', '0', { type: 'number' })}${choice('lifetime', 'Lasts', lifetimes)}
      ${choice('fallback', 'What a device cannot do exactly', [['refuse', 'is refused'], ['approximate', 'is approximated']])}</div>
    ${devices.length > 1 && checks('devices', 'Sources (none: all)', devices.map((d) => d.name))}
    <div class="row end"><button type="button" onClick=${close}>Cancel</button><button class="primary" type="submit">Dry run</button></div></form><//>`;
}

/** The settings of all devices: changed after a dry run, as intents are. */
export function ConfigForm({ config, close, done }) {
  const [values, setValues] = useState(config);
  const [ready, setReady] = useState(false);
  const { domain } = store.state.value;
  const field = (name, label, hint) => html`<label class="field">${label}<input name=${name} value=${values[name] ?? ''} placeholder=${hint} spellcheck=${false} autocomplete="off"
    onInput=${(e) => setValues({ ...values, [name]: e.target.value })} /></label>`;
  if (ready) {
    return html`<${Dialog} title="Dry run: settings" close=${close} wide><${Plan} change=${{ config: values }} verb="Apply" back=${() => setReady(false)}
      apply=${() => send('PUT', inDomain(domain, 'int', 'config'), values)} done=${done} /><//>`;
  }
  return html`<${Dialog} title="Settings of all devices" close=${close}><form class="intent" onSubmit=${(e) => { e.preventDefault(); setReady(true); }}>
    ${field('collector', 'Collector that reports go to', '127.0.0.1:6000')}${field('mark', 'Mark of packets with INT', 'dscp=0x17/0x3f, or port=N')}${field('report', 'Version of reports', '2.0')}
    <div class="row end"><button type="button" onClick=${close}>Cancel</button><button class="primary" type="submit">Dry run</button></div></form><//>`;
}
