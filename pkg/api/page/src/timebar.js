// SPDX-License-Identifier: Apache-2.0
// The controls of the time machine.

import { html, IconButton, useEffect, useRef } from './ui.js';
import { clock, count, duration, factor } from './format.js';
import { speedOfSlider, sliderOfSpeed } from './machine.js';
import { colours } from './theme.js';
import * as health from './health.js';
import * as store from './store.js';
import * as player from './player.js';

export function TimeBar() {
  const { mode, domain } = store.state.value;
  const source = store.domains.value.find((d) => d.name === domain)?.source;
  const alive = health.alive.value && source === 'ring'; // of anything else nothing comes by itself
  return html`<section class="timebar" aria-label="Time machine">
    <div class="modes" role="group" aria-label="Mode">
      <button aria-pressed=${mode === 'live'} onClick=${player.goLive}>${store.whole.value ? `The whole ${store.whole.value}` : html`<i class=${alive ? 'live on' : health.trouble.value.length ? 'live off' : 'live'}></i>Live`}</button>
      <button class="to-machine" aria-pressed=${mode === 'machine'} onClick=${() => mode !== 'machine' && player.enterMachine()}>Time machine</button>
    </div>
    ${mode === 'live' ? html`<${Live} />` : html`<${Controls} />`}
  </section>`;
}

const atRest = { capture: 'Reports in a capture', recording: 'A recording: nothing new comes' };

function Live() {
  const tick = store.tick.value;
  const { domain } = store.state.value;
  const source = store.domains.value.find((d) => d.name === domain)?.source;
  if (!tick && source && source !== 'ring') {
    return html`<p class="live-text">${atRest[source] ?? 'Reports of switches, read again every 10 s'}.
      <span class="muted wide-only"> The time machine moves their packets.</span></p>`;
  }
  if (health.stale.value) return html`<p class="live-text lost">Nothing new comes: the drawing is as it was last. <span class="muted wide-only">What was measured is in the time machine, as long as the server has it.</span></p>`;
  return html`<p class="live-text" aria-live="off">${tick
    ? html`<b>${count(tick.packets / (tick.span_ns / 1e9))}</b> packets/s, <b class=${tick.lost ? 'lost' : ''}>${count(tick.lost)}</b> lost in the last second`
    : 'Waiting for the first second…'}
    <span class="muted wide-only"> · a sample moves, slowed so that each link can be seen. Pause for exact times.</span></p>
    <${IconButton} icon="pause" label="Pause: the last packets in the time machine (Space)" onClick=${player.toggle} />`;
}

function Controls() {
  const { speed } = store.state.value;
  const { packets, lost, loading, error, end } = player.loaded.value;
  const atEnd = player.saidOfEnd(end);
  // A button that is disabled would lose the focus to nothing: it says that it does nothing now.
  const beyond = (direction, text, which) => html`<button class="quiet beyond" aria-disabled=${!packets || loading || player.isAtEnd(direction)}
    title=${(end === direction && atEnd) || `Load the ${which} packets`} onClick=${() => player.goBeyond(direction)}>${text}</button>`;
  const playing = player.playing.value;
  const { machine } = player;
  const t = player.now.value;
  return html`<div class="buttons">
      <${IconButton} icon="previous" label="To the event before (←)" onClick=${() => player.step(-1)} />
      <${IconButton} icon=${playing ? 'pause' : 'play'} label=${playing ? 'Pause (Space)' : 'Play (Space)'} onClick=${player.toggle} />
      <${IconButton} icon="next" label="To the next event (→)" onClick=${() => player.step(1)} />
    </div>
    <label class="speed"><span>Speed <output>${factor(speed)}</output></span>
      <input type="range" min="0" max="1" step="0.0714286" value=${sliderOfSpeed(speed)} aria-valuetext=${factor(speed)}
        onInput=${(e) => store.go({ speed: Number(speedOfSlider(Number(e.target.value)).toPrecision(3)) })} /></label>
    ${beyond(-1, 'Earlier', 'earlier')}
    <div class="seek"><${Ticks} /><input type="range" aria-label="Moment" min="0" max="1" step="0.0001" disabled=${!packets}
      value=${machine.last > machine.first ? (t - machine.first) / (machine.last - machine.first) : 0}
      aria-valuetext=${duration(t - machine.first)}
      onInput=${(e) => { player.playing.value = false; player.seek(machine.first + Number(e.target.value) * (machine.last - machine.first)); }} />
      <div class="ends"><output class="moment">${packets ? clock(player.isoOf(t)) : '–'} <span class="muted">+${duration(t - machine.first)}</span></output>
        <span role="status" class=${error ? 'lost' : 'muted'}>${error || (loading ? 'loading…' : html`${count(packets)} packets, ${count(lost)} lost${atEnd && ` · ${atEnd}`}`)}</span></div></div>
    ${beyond(1, 'Later', 'later')}
    <button class="quiet reload" title="Load the newest packets again" onClick=${() => player.enterMachine({}, undefined)}>Reload</button>`;
}

/** How many packets begin at each moment, and how many are lost. */
function Ticks() {
  const ref = useRef(null);
  const shown = player.loaded.value;
  const theme = colours(store.theme.value);
  useEffect(() => {
    const canvas = ref.current;
    const { clientWidth: width, clientHeight: height } = canvas;
    canvas.width = width;
    canvas.height = height;
    const n = Math.max(1, Math.floor(width / 3));
    const { sent, lost } = player.machine.histogram(n);
    const most = Math.max(1, ...sent);
    const ctx = canvas.getContext('2d');
    for (let i = 0; i < n; i++) {
      const high = (value) => (value ? Math.max(2, value / most * (height - 2)) : 0);
      ctx.fillStyle = theme.edge;
      ctx.fillRect(i * 3, height - high(sent[i]), 2, high(sent[i]));
      ctx.fillStyle = theme.loss;
      ctx.fillRect(i * 3, height - high(lost[i]), 2, high(lost[i]));
    }
  }, [shown, theme]);
  return html`<canvas class="ticks" ref=${ref} aria-hidden="true"></canvas>`;
}
