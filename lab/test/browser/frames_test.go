// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"testing"
)

// many shows a spine-leaf network of 300 nodes, gives it a load event a second and 100 packets a second, and measures the
// times between frames, in ms, and what the page's own drawing takes of each.
const many = `(async () => {
	const { store, scene } = radar;
	const nodes = [], links = [], pair = (a, ap, b, bp) => links.push({ kind: 'pair', ends: [{ node: a, port: ap }, { node: b, port: bp }],
		load: [{ from: a + '/' + ap, to: b + '/' + bp, packets: 5, p50_ns: 3000, lost: 0 }, { from: b + '/' + bp, to: a + '/' + ap, packets: 5, p50_ns: 2000, lost: 1 }] });
	for (let s = 0; s < 10; s++) nodes.push({ name: 'spine' + s, class: 'switch' });
	for (let l = 0; l < 29; l++) {
		nodes.push({ name: 'leaf' + l, class: 'switch' });
		for (let s = 0; s < 10; s++) pair('leaf' + l, 'up' + s, 'spine' + s, 'down' + l);
		for (let h = 0; h < 9; h++) { nodes.push({ name: 'h' + l + 'x' + h }); pair('h' + l + 'x' + h, 'eth0', 'leaf' + l, 'h' + h); }
	}
	store.setTopology({ nodes, links });
	const packet = (n) => { const a = n % 29, b = (n * 7 + 3) % 29, s = n % 10;
		return { id: 'p' + n, state: 'delivered', time: new Date().toISOString(), proto: ['tcp', 'udp', 'icmp'][n % 3], src: 'a', dst: 'b', hops: [
			{ node: 'h' + a + 'x' + n % 9, port: 'eth0', at_ns: 0 }, { node: 'leaf' + a, in_port: 'h' + n % 9, port: 'up' + s, at_ns: 9000, node_ns: 1000 },
			{ node: 'spine' + s, in_port: 'down' + a, port: 'down' + b, at_ns: 19000, node_ns: 1000 }, { node: 'leaf' + b, in_port: 'up' + s, port: 'h0', at_ns: 30000, node_ns: 1000 }, { node: 'h' + b + 'x0', in_port: 'eth0', at_ns: 40000 }] }; };
	const frames = [], own = [], end = performance.now() + 10000;
	const loop = scene.loop;
	scene.loop = (wall) => { const begun = performance.now(); loop(wall); own.push(performance.now() - begun); };
	let n = 0, before, second = 0;
	await new Promise((done) => { const step = (wall) => {
		if (before !== undefined) frames.push(wall - before);
		before = wall;
		for (let i = 0; i < 2; i++) store.apply('packet', packet(n++));
		if (wall - second > 1000) { second = wall; store.apply('load', { t_ns: Date.now() * 1e6, span_ns: 1e9, packets: 100, bytes: 1e6, lost: 0, nodes: [], paths: [],
			links: links.flatMap((l) => l.load.map((d) => ({ ...d, bytes: 1e5 * (1 + n % 7), p50_ns: 1000 + n }))) }); }
		if (wall < end) requestAnimationFrame(step); else done(); }; requestAnimationFrame(step); });
	const at = (list, part) => list.sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * part))];
	return { Nodes: store.graph.vertices.size, Frames: frames.length, Median: at(frames, .5), P99: at(frames, .99), Own: at(own, .5), OwnP99: at(own, .99) };
})()`

// BenchmarkFrames measures the drawing of 300 nodes. It judges nothing: docs/design/0036-page.md has its figures.
//
//	go test ./lab/test/browser -run '^$' -bench Frames -benchtime 1x
func BenchmarkFrames(b *testing.B) {
	w := newWorld(b, "bottleneck")
	p := open(b, w.url)
	p.show("topology", "domain", "nobody") // its own topology is not asked for in vain
	p.expected = []string{"404", "Not Found"}
	p.see(`canvas.top`)
	for b.Loop() {
		r := eval[struct{ Nodes, Frames, Median, P99, Own, OwnP99 float64 }](p, many)
		b.ReportMetric(r.Nodes, "nodes")
		b.ReportMetric(r.Median, "ms/frame")
		b.ReportMetric(r.P99, "ms/frame-p99")
		b.ReportMetric(r.Own, "ms-drawing")
		b.ReportMetric(r.OwnP99, "ms-drawing-p99")
		p.shot("300-nodes-1280")
	}
}
