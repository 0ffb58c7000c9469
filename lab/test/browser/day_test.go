// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/vnetradar/radar/lab/test/need"
)

// feed gives the page what it would get in seconds [from, to) of a day: a load event a second, packets, losses, events,
// each with new addresses. Links and nodes come and go, too. Between events the page draws.
const feed = `(async (from, to) => {
	const { store } = radar;
	const hops = [{ node: 'h1', port: 'eth0', at_ns: 0 }, { node: 'r1', in_port: 'eth0', port: 'eth1', at_ns: 9000, node_ns: 2000, link_ns: 7000 }, { node: 'r2', in_port: 'eth0', port: 'eth1', at_ns: 20000, node_ns: 3000, link_ns: 8000 }];
	const time = (s) => new Date(1.8e12 + s * 1000).toISOString().replace('Z', '000000Z').replace(/\.(\d{3})000000Z/, '.$1000000Z');
	for (let s = from; s < to; s++) {
		const links = [];
		for (let i = 0; i < 10; i++) links.push({ from: 'n' + i + '/eth0', to: 'n' + (i + 1) + '/eth0', packets: s % 1000, bytes: s % 99999, p50_ns: 1000 + s % 777, p99_ns: 90000, lost: s % 3 });
		links.push({ from: 'new' + (s / 20 | 0) + '/eth0', to: 'r1/eth0', packets: 1, bytes: 1, lost: 0 });
		store.apply('load', { t_ns: (1.8e9 + s) * 1e9, span_ns: 1e9, packets: s, bytes: s, lost: s % 3, unsent: 0, links, nodes: [{ name: 'r1', packets: 1, p50_ns: s % 999, lost: 0 }, { name: 'c' + (s / 50 | 0), packets: 1 }], paths: [] });
		for (let i = 0; i < 3; i++) {
			const record = { v: 1, id: s + '-' + i, state: 'delivered', time: time(s), src: '10.' + (s >> 8 & 255) + '.' + (s & 255) + '.' + i, dst: '10.0.4.2', proto: 'udp', sport: s % 65536, dport: 53, len: 100, segs: 1, hops: hops.map((h) => ({ ...h })) };
			if (i === 2) Object.assign(record, { state: 'lost', loss: { node: 'r2', port: 'eth1', at: 'queue', reason: 'QDISC_DROP', at_ns: 30000 } });
			store.apply(i === 2 ? 'loss' : 'packet', record);
		}
		if (s % 60 === 0) store.apply('event', { t_ns: (1.8e9 + s) * 1e9, kind: 'node_came', text: 'node ' + s });
		if (s % 100 === 0) await new Promise((done) => setTimeout(done));
	}
	return true;
})`

// TestDay: what a day brings, 86,400 seconds, does not grow the page's memory. An hour of it fills all that is kept. Outside
// nightly it is a day of four hours.
func TestDay(t *testing.T) {
	const full = 3600
	day := 4 * 3600
	if need.IsNightly(t) {
		day = 24 * 3600
	}
	w := newWorld(t, "bottleneck")
	p := open(t, w.url)
	p.show("topology", "domain", w.lab)
	p.see(`[data-link]`)
	p.through(0, full)
	early := p.heap()
	p.through(full, day)
	late := p.heap()
	t.Logf("heap after %d seconds: %.1f MB, after %d: %.1f MB", full, early/1e6, day, late/1e6)
	if late > early*1.15+1e6 {
		t.Errorf("the page's memory has grown from %.1f MB to %.1f MB", early/1e6, late/1e6)
	}
	p.clean()
}

// through feeds the page in pieces, none of which takes longer than an action may.
func (p *page) through(from, to int) {
	p.Helper()
	for ; from < to; from += 2000 {
		eval[bool](p, fmt.Sprintf("%s(%d, %d)", feed, from, min(from+2000, to)))
	}
}

// heap is what JavaScript uses after a garbage collection, bytes.
func (p *page) heap() (used float64) {
	p.Helper()
	collect := call(heapprofiler.CollectGarbage, cdp.Empty{})
	p.do(collect, collect, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		usage, err := cdp.Call(ctx, target, runtime.GetHeapUsage, cdp.Empty{})
		used = usage.UsedSize + usage.BackingStorageSize
		return err
	}))
	return used
}
