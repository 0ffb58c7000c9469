// SPDX-License-Identifier: Apache-2.0
// The topology, with what moves on it, beside its details.

import { html, IconButton, useEffect, useRef, useState } from './ui.js';
import { effect } from './lib/signals-core/signals-core.js';
import { Scene } from './scene.js';
import { Details } from './details.js';
import { Legend, linkLabel } from './overview.js';
import { TimeBar } from './timebar.js';
import { colours, legend } from './theme.js';
import { way } from './model.js';
import { flowTitle } from './url.js';
import { count } from './format.js';
import * as health from './health.js';
import * as store from './store.js';
import * as player from './player.js';

/** The scene that is shown, for the keyboard. */
export let scene;

export function TopologyView() {
  const base = useRef(null);
  const top = useRef(null);
  const labels = useRef(null);
  const [tip, setTip] = useState(undefined);
  useEffect(() => {
    scene = new Scene(base.current, top.current, labels.current, { select: (sel) => store.go({ sel }), hover: setTip });
    const stopLive = player.startLive();
    const stopEffects = follow(scene);
    if (store.state.value.mode === 'machine' && !player.machine.journeys.length && !player.loaded.value.loading) player.loadMachine();
    return () => {
      stopLive();
      stopEffects();
      scene.stop();
      scene = undefined;
    };
  }, []);
  const theme = colours(store.theme.value);
  const narrow = globalThis.matchMedia('(max-width: 760px)').matches;
  const { domain } = store.state.value;
  return html`<div class="topology"><h1 class="sr">Topology of ${domain}</h1>
    <section class="stage" aria-label="Topology"><div class=${health.stale.value ? 'drawing stale' : 'drawing'}>
      <canvas ref=${base} class="base" aria-hidden="true"></canvas>
      <canvas ref=${top} class="top" tabindex="0" role="img" onKeyDown=${keys}
        aria-label="Drawing of the topology. The lists of links and nodes beside it say the same in words. Shift and arrow keys move it, plus and minus zoom, f shows all."></canvas>
      <canvas ref=${labels} class="labels" aria-hidden="true"></canvas>
      ${tip && html`<${Tip} tip=${tip} />`}
      <div class="tools"><${IconButton} icon="plus" label="Zoom in (+)" onClick=${() => scene.zoom(1.3)} />
        <${IconButton} icon="minus" label="Zoom out (−)" onClick=${() => scene.zoom(1 / 1.3)} />
        <${IconButton} icon="fit" label="Show all (f)" onClick=${() => scene.fit()} />
        <${IconButton} icon="save" label="Save the drawing as SVG" onClick=${() => save('svg')} /><${IconButton} icon="picture" label="Save the drawing as PNG" onClick=${() => save('png')} /></div>
      ${store.topology.value && !store.topology.value.nodes?.length && !health.trouble.value.length && html`<p class="empty over">This domain has no nodes yet.</p>`}</div>
      <${Legend} steps=${legend(theme)} untimed=${theme.untimed} open=${!narrow} />
    </section>
    <${Details} />
    <${TimeBar} /></div>`;
}

/** Draws anew when what is shown changes. */
function follow(shown) {
  const stops = [
    effect(() => {
      void store.tick.value;
      void store.graphChanged.value;
      void store.theme.value;
      const { sel } = store.state.value;
      shown.lit = litBy(sel);
      void store.moments.value;
      void store.past.value;
      void health.stale.value;
      shown.nodeLost = new Map([...store.graph.vertices.keys()].map((name) => [name, { lost: store.nodeLost(name), now: store.nodeLostNow(name) }]));
      shown.dirty = true;
    }),
  ];
  return () => stops.forEach((stop) => stop());
}

/** The directions of links that a chosen path or packet took. */
function litBy(sel) {
  const lit = new Set();
  let hops = [];
  if (sel.startsWith('path:')) hops = sel.slice(5).split(' > ').map((node) => ({ node }));
  else if (sel.startsWith('packet:')) hops = player.machine.journeys.find((j) => j.id === sel.slice(7))?.record.hops ?? [];
  hops.forEach((hop, i) => {
    const before = hops[hop.prev ?? i - 1];
    if (!before) return;
    for (const { edge, forward } of way(store.graph, before.node, before.port, hop.node, hop.in_port)) {
      lit.add(forward ? `${edge.from} > ${edge.to}` : `${edge.to} > ${edge.from}`);
    }
  });
  return lit;
}

/** What a saved drawing is of. */
function caption() {
  const { domain, mode, filter, flow } = store.state.value;
  const when = mode === 'machine' && player.machine.events.length ? player.isoOf(player.machine.t) : new Date().toISOString();
  return [`radar, domain ${domain}`, when, filter && `filter ${filter}`, flow && flowTitle(flow)].filter(Boolean).join(' · ');
}

/** Saves what is drawn now as a file. @param {'svg'|'png'} kind */
async function save(kind) {
  const text = caption();
  const blob = kind === 'svg' ? new Blob([scene.toSVG(text)], { type: 'image/svg+xml' }) : await scene.toPNG(text);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = `radar-${store.state.value.domain}-${text.split(' · ')[1].replace(/[:.]/g, '')}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

function Tip({ tip }) {
  const text = tip.vertex ? `${tip.vertex.name} · ${tip.vertex.class} · ${count(store.nodeLost(tip.vertex.name))} lost inside` : linkLabel(tip.id, store.loadOf(tip.id));
  return html`<div class="tip" role="status" style=${{ transform: `translate(${Math.round(tip.x + 14)}px, ${Math.round(tip.y + 14)}px)` }}>${text}</div>`;
}

function keys(e) {
  const by = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[e.key];
  if (!by || !e.shiftKey) return;
  e.preventDefault();
  scene.pan(...by);
}
