// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestBottleneck: a user opens a loaded lab, sees where packets are lost and how many, follows one of them to the place
// of its loss, and looks at each view. The page asks no other host, and its console stays empty.
func TestBottleneck(t *testing.T) {
	w := newWorld(t, "bottleneck")
	stop := w.load()
	p := open(t, w.url)
	p.show("topology", "domain", w.lab)
	t.Run("live", func(t *testing.T) { live(t, w, p.in(t)) })
	t.Run("views", func(t *testing.T) { screens(t, w, p.in(t)) })
	stop()
	p.in(t)
	t.Run("losses", func(t *testing.T) { losses(t, w, p.in(t)) })
	t.Run("packet", func(t *testing.T) { follow(t, w, p.in(t)) })
	p.in(t).clean()
}

// live: packets move, the bottleneck is marked while there is load, and another second brings more losses.
func live(t *testing.T, w *world, p *page) {
	lost := func() int { return lostAt(p, "r2/eth1 > r3/eth0") }
	nstest.WaitFor(t, "losses are shown", func() bool { return lost() > 100 })
	before := lost()
	nstest.WaitFor(t, "the number of losses grows", func() bool { return lost() > before })
	nstest.WaitFor(t, "packets move", func() bool { return painted(p, "canvas.top") > 50 })
	if eval[int](p, `document.querySelectorAll('[data-link]').length`) != 10 {
		t.Error("not each direction of the five links has a row")
	}
}

// lostAt is how many packets the page's row of a direction of a link says were lost.
func lostAt(p *page, link string) int {
	p.Helper()
	return lostIn(p, fmt.Sprintf(`[data-link="%s"]`, link))
}

// lostIn is how many packets a row says were lost: in words, and in its attribute.
func lostIn(p *page, row string) int {
	p.Helper()
	type said struct{ Number, Text string }
	of := eval[said](p, fmt.Sprintf(`(() => { const e = document.querySelector('%s'); return { Number: e?.dataset.lost ?? '0', Text: e?.querySelector('.loss')?.firstChild?.nextSibling?.textContent ?? '0' }; })()`, row))
	n, err := strconv.Atoi(of.Number)
	if err != nil {
		p.Fatalf("the row %s has no number of losses: %+v", row, of)
	}
	if text := strings.Join(strings.FieldsFunc(of.Text, func(r rune) bool { return r < '0' || r > '9' }), ""); text != strconv.Itoa(n) {
		p.Errorf("the row %s says %q lost, its attribute %d", row, of.Text, n)
	}
	return n
}

// painted counts pixels of a canvas that are not transparent.
func painted(p *page, selector string) int {
	p.Helper()
	return eval[int](p, fmt.Sprintf(`(() => { const c = document.querySelector(%q); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; })()`, selector))
}

// losses: after the load the page says of each link what the kernel's queue says, and of r1 what its firewall dropped.
func losses(t *testing.T, w *world, p *page) {
	p.show("topology", "domain", w.lab)
	want := w.dropped("r2", "eth1")
	if want == 0 {
		t.Fatal("the bottleneck has dropped nothing")
	}
	nstest.WaitFor(t, fmt.Sprintf("r2/eth1 has lost %d", want), func() bool { return lostAt(p, "r2/eth1 > r3/eth0") == want })
	for _, link := range []string{"h1/eth0 > r1/eth0", "r1/eth1 > r2/eth0", "r3/eth1 > h2/eth0", "r3/eth0 > r2/eth1"} {
		if n := lostAt(p, link); n != 0 {
			t.Errorf("%s: %d lost, though only r2/eth1 has a queue that drops", link, n)
		}
	}
	blocked := w.node("r1", "nft", "-j", "list", "table", "ip", "lab")
	_, rest, _ := strings.Cut(blocked, `"packets": `)
	number, _, _ := strings.Cut(rest, ",")
	if n := lostIn(p, `[data-node="r1"]`); number != strconv.Itoa(n) {
		t.Errorf("the firewall of r1 has dropped %s, the page says %d", number, n)
	}
}

// follow: the newest packet that the queue dropped is chosen in the list of losses; the drawing shows it where it was lost.
func follow(t *testing.T, w *world, p *page) {
	p.show("losses", "domain", w.lab, "filter", "dst port 5201")
	p.click(`[...document.querySelectorAll('table')].find((t) => t.caption.textContent === 'The newest lost packets')?.tBodies[0].rows[0]`)
	p.click(button("Show where it was lost"))
	p.see(".timebar .moment")
	story := func() string { return eval[string](p, `document.querySelector('.story')?.innerText ?? ''`) }
	nstest.WaitFor(t, "its story", func() bool { return strings.Contains(story(), "lost at r2/eth1") })
	if !strings.Contains(story(), "queue full") || !strings.Contains(story(), "QDISC_DROP") {
		t.Errorf("the story does not say why: %q", story())
	}
	nstest.WaitFor(t, "the packet falls at r2", func() bool { return eval[bool](p, falls) })
	p.shot("lost-packet-1280")
	id := eval[string](p, `location.hash`)
	if !strings.Contains(id, "sel=packet") || !strings.Contains(id, "mode=machine") || !strings.Contains(id, "t=") {
		t.Errorf("the address does not say what is shown: %s", id)
	}
	p.do(chromedp.Reload())
	p.see(".story")
	nstest.WaitFor(t, "the same after a reload", func() bool { return strings.Contains(story(), "lost at r2/eth1") && eval[bool](p, falls) })
}

// falls reports whether the time machine is at the loss of the packet that is chosen, whose place is at the rim of r2,
// toward r3, and whether a cross in the colour of losses is drawn there.
const falls = `(() => {
	const { scene, player, placeOfFall, colours, store } = radar;
	const id = store.state.value.sel.slice(7);
	const journey = player.machine.journeys.find((j) => j.id === id);
	if (!journey || journey.falls.length !== 1 || player.machine.t !== journey.falls[0].t) return false;
	const at = placeOfFall(scene.picture(scene.top), journey.falls[0]);
	const far = (name) => { const v = scene.camera.at(store.graph.vertices.get(name)); return Math.hypot(v.x - at.x, v.y - at.y); };
	const [r2, r3] = ['r2', 'r3'].map((name) => scene.camera.at(store.graph.vertices.get(name)));
	const whole = Math.hypot(r3.x - r2.x, r3.y - r2.y);
	if (far('r2') > 0.4 * whole || far('r3') > whole) return false;
	const colour = colours(store.theme.value).loss.slice(1).match(/../g).map((h) => parseInt(h, 16));
	const ratio = scene.top.width / scene.camera.width;
	const d = scene.top.getContext('2d').getImageData((at.x - 8) * ratio, (at.y - 8) * ratio, 16 * ratio, 16 * ratio).data;
	let seen = 0;
	for (let i = 0; i < d.length; i += 4) seen += d[i + 3] > 128 && colour.every((c, k) => Math.abs(d[i + k] - c) < 24);
	return seen >= 6;
})()`

// screens looks at every view on a desk and on a phone, at two of them also in the light.
func screens(t *testing.T, w *world, p *page) {
	views := map[string]string{"packets": "tbody tr", "flows": "tbody tr", "paths": "tbody tr", "losses": "tbody tr", "int": "h1", "topology": "[data-link]"}
	for _, size := range [][2]int64{{1280, 800}, {390, 844}} {
		for view, there := range views {
			themes := []string{"dark", "light"}
			if view != "topology" && view != "losses" {
				themes = themes[:1]
			}
			for _, theme := range themes {
				p.size(size[0], size[1], theme)
				p.show(view, "domain", w.lab)
				p.see(there)
				p.wait("all questions have an answer", `!document.querySelector('.loading')`)
				if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > int(size[0]) {
					t.Errorf("%s is %d pixels wide on a screen of %d", view, wide, size[0])
				}
				p.shot(fmt.Sprintf("%s-%d-%s", view, size[0], theme))
			}
		}
		p.size(size[0], size[1], "dark")
		for name, sel := range map[string]string{"link": "link:r2/eth1 > r3/eth0", "node": "node:r1"} {
			p.show("topology", "domain", w.lab, "sel", sel)
			p.see(".plot .bars")
			p.see("canvas.base")
			nstest.WaitFor(t, "the drawing", func() bool { return painted(p, "canvas.top") > 0 })
			p.shot(fmt.Sprintf("%s-%d", name, size[0]))
		}
		p.show("flows", "domain", w.lab)
		p.click(`document.querySelector('tbody tr')`)
		p.see(".percentiles")
		p.shot(fmt.Sprintf("flow-%d", size[0]))
	}
	p.size(1280, 800, "dark")
}
