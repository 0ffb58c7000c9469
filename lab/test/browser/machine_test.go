// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestTimeMachine: of two pings between the same hosts one is lost. Whoever clicks on its flow sees that one, follows it on
// the drawing, and lists and marks are of the moment there while other packets pass, as all lists are. What was chosen is
// in the address.
func TestTimeMachine(t *testing.T) {
	const lost = 3
	w := newWorld(t, "bottleneck", func(w *world) {
		w.node("r1", "nft", "add table ip one; add chain ip one f { type filter hook forward priority 0; }; add rule ip one f icmp id 77 drop")
	})
	w.node("h1", "ping", "-c", "4", "-i", "0.05", "-e", "76", "10.0.4.2")
	w.node("h1", "ping", "-c", fmt.Sprint(lost), "-i", "0.05", "-W", "1", "-e", "77", "10.0.4.2")
	p := open(t, w.url)
	t.Run("flow", func(t *testing.T) { lostFlow(t, w, p.in(t), lost) })
	t.Run("moment", func(t *testing.T) { moment(t, w, p.in(t), lost) })
	t.Run("until", func(t *testing.T) { until(t, w, p.in(t)) })
	t.Run("why", func(t *testing.T) { words(t, w, p.in(t)) })
	t.Run("address", func(t *testing.T) { address(t, w, p.in(t)) })
	t.Run("space", func(t *testing.T) { space(t, w, p.in(t)) })
	t.Run("save", func(t *testing.T) { save(t, w, p.in(t)) })
	p.in(t).clean()
}

// lostFlow: the row that says "100 %" leads to what it says, and to the drawing.
func lostFlow(t *testing.T, w *world, p *page, lost int) {
	p.show("flows", "domain", w.lab)
	p.click(`[...document.querySelectorAll('tbody tr')].find((r) => r.textContent.includes('(100 %)'))`)
	p.see(".facts")
	details := eval[string](p, `document.querySelector('aside.panel').innerText`)
	if !strings.Contains(details, "icmp 10.0.1.1 > 10.0.4.2 echo id 77") || !strings.Contains(details, fmt.Sprintf("%d (100 %%)", lost)) {
		t.Errorf("details of the flow that was lost: %s", details)
	}
	p.click(button("Follow it in the time machine"))
	p.see("canvas.top")
	p.wait("its packets are loaded", fmt.Sprintf(`radar.player.loaded.value.packets === %d`, lost))
	if hash := eval[string](p, `location.hash`); !strings.HasPrefix(hash, "#/topology?") || !strings.Contains(hash, "mode=machine") || !strings.Contains(hash, "flow=icmp") {
		t.Errorf("the address is %s", hash)
	}
	if ids := eval[[]int](p, `[...new Set(radar.player.machine.journeys.map((j) => j.record.icmp_id))]`); len(ids) != 1 || ids[0] != 77 {
		t.Errorf("packets of flows %v", ids)
	}
	nstest.WaitFor(t, "a packet is drawn", func() bool { return painted(p, "canvas.top") > 20 })
	p.shot("followed-1280")
}

// moment: lists and marks are of the moment, while pings go on.
func moment(t *testing.T, w *world, p *page, lost int) {
	stop := w.background("h1", "ping", "-i", "0.05", "10.0.4.2")
	at := func(t string) {
		p.Helper()
		eval[bool](p, fmt.Sprintf(`(() => { const { player } = radar; player.seek(%s); return true; })()`, t))
	}
	rows := func() [2]int { return [2]int{lostIn(p, `[data-node="r1"]`), passed(p, "h1/eth0 > r1/eth0")} }
	p.click(`document.querySelector('.crumbs button')`) // the lists
	for _, c := range []struct {
		at   string
		want [2]int
	}{{"player.machine.first", [2]int{0, 0}}, {"player.machine.journeys[0].falls[0].t", [2]int{1, 1}}, {"player.machine.last", [2]int{lost, lost}}} {
		at(c.at)
		nstest.WaitFor(t, c.at, func() bool { return rows() == c.want })
		before := eval[int](p, `radar.store.tick.value?.t_ns ?? 0`)
		p.wait("two seconds of pings", fmt.Sprintf(`(radar.store.tick.value?.t_ns ?? 0) > %d + 2e9 && radar.store.tick.value.packets > 10`, before))
		if got := rows(); got != c.want {
			t.Errorf("%s: %v, and two seconds later %v", c.at, c.want, got)
		}
	}
	stop()
	p.click(`document.querySelector('.chip')`)
	p.wait("all flows are loaded again", fmt.Sprintf(`radar.player.loaded.value.packets > %d`, 2*lost))
}

// until: in the time machine all lists, and the panel of a node, say what the command line says of the packets that were sent
// until its moment, and say so; who opens the address sees the same. Live they are of all packets again.
func until(t *testing.T, w *world, p *page) {
	p.show("topology", "domain", w.lab, "mode", "machine")
	p.wait("packets are loaded", `radar.player.loaded.value.packets > 0`)
	end := eval[string](p, `(() => { const { player } = radar, t = player.machine.journeys.find((j) => j.falls.length).start; player.seek(t); return player.isoOf(t + 1); })()`)
	at := eval[string](p, `new URLSearchParams(location.hash.split('?')[1]).get('t')`)
	clock := eval[string](p, `/T(.{15})/.exec(radar.player.isoOf(radar.player.machine.t))[1]`)
	// Back goes to the moment of before, not only to its address.
	p.click(`document.querySelector('[data-node="r1"]')`)
	eval[bool](p, `(() => { const { player } = radar; player.seek(player.machine.last); history.back(); return true; })()`)
	p.wait("the moment of before", fmt.Sprintf(`radar.store.state.value.sel === '' && radar.player.isoOf(radar.player.machine.t + 1) === %q && location.hash.includes(%q)`, end, at))
	for _, c := range []struct {
		view string
		cell int // of the number of packets
	}{{"losses", 0}, {"flows", 1}, {"paths", 2}} {
		command := strings.Replace(c.view, "losses", "loss", 1)
		then, all := packetsOf(w, command, "--until", end), packetsOf(w, command)
		if fmt.Sprint(then) == fmt.Sprint(all) || len(then) == 0 {
			t.Fatalf("%s: until %s %v, in all %v: that tells nothing", command, end, then, all)
		}
		shows := func(when string, want []int) {
			t.Helper()
			rows := func() []int {
				return eval[[]int](p, fmt.Sprintf(`[...document.querySelector('table')?.tBodies[0].rows ?? []].map((r) => Number(r.cells[%d].textContent.replace(/\D/g, ''))).sort((a, b) => b - a)`, c.cell))
			}
			nstest.WaitFor(t, fmt.Sprintf("%s %s: %v", c.view, when, want), func() bool { return fmt.Sprint(rows()) == fmt.Sprint(want) })
		}
		p.show(c.view, "domain", w.lab, "mode", "machine", "t", at)
		shows("until then", then)
		title := func() string { return eval[string](p, `document.querySelector('h1').textContent`) }
		if !strings.HasSuffix(title(), " until "+clock) {
			t.Errorf("the title of %s is %q: it does not say until %s", c.view, title(), clock)
		}
		p.shot(c.view + "-until-1280")
		p.click(button("Back to live"))
		shows("live", all)
		if hash := eval[string](p, `location.hash`); strings.Contains(title(), "until") || strings.Contains(hash, "mode=") || strings.Contains(hash, "t=") {
			t.Errorf("live the title is %q, the address %s", title(), hash)
		}
	}
	timed := -1
	for _, row := range rowsOf(w, "latency", "--by", "node", "--until", end) {
		if row.Name == "r1" {
			timed = row.Count
		}
	}
	p.show("losses", "domain", w.lab, "mode", "machine", "t", at, "sel", "node:r1")
	panel := func() string { return eval[string](p, `document.querySelector('aside.panel')?.innerText ?? ''`) }
	nstest.WaitFor(t, "the panel of r1", func() bool {
		return strings.Contains(panel(), fmt.Sprintf("%d packets", timed)) && strings.Contains(panel(), "lost here\n1\n")
	})
	if !strings.Contains(panel(), "sent until "+clock) {
		t.Errorf("the panel of r1 does not say until when it is: %s", panel())
	}
	p.shot("node-until-1280")
}

// packetsOf is how many packets each row of an answer of the command line has, the most first.
func packetsOf(w *world, command ...string) (list []int) {
	w.Helper()
	for _, row := range rowsOf(w, command...) {
		list = append(list, row.Packets)
	}
	slices.Sort(list)
	slices.Reverse(list)
	return list
}

type answered struct {
	Name           string
	Packets, Count int
}

// rowsOf are the rows of an answer of the command line.
func rowsOf(w *world, command ...string) (rows []answered) {
	w.Helper()
	lines := json.NewDecoder(strings.NewReader(w.run(append(command, "--domain", w.lab, "-o", "json")...)))
	for lines.More() {
		var row answered
		if err := lines.Decode(&row); err != nil {
			w.Fatal(command, err)
		}
		rows = append(rows, row)
	}
	return rows
}

// passed is how many packets a direction's row says that passed.
func passed(p *page, link string) int {
	p.Helper()
	return eval[int](p, fmt.Sprintf(`Number(document.querySelector('[data-link="%s"] .numbers')?.firstChild.textContent.replace(/\D/g, '') ?? -1)`, link))
}

// words: why packets were lost is said as the command line says it.
func words(t *testing.T, w *world, p *page) {
	if out := w.run("loss", "--domain", w.lab); !strings.Contains(out, "firewall rule") {
		t.Fatal(out)
	}
	p.show("losses", "domain", w.lab)
	p.wait("both tables say why", `[...document.querySelectorAll('table')].filter((t) => [...t.tBodies[0].rows].some((r) => r.textContent.includes('firewall rule'))).length === 2`)
	p.click(`document.querySelector('tbody tr')`)
	p.see(".reasons")
	if text := eval[string](p, `document.querySelector('.reasons b').textContent`); !strings.HasPrefix(text, "firewall rule; one of: ip lab forward") {
		t.Errorf("beside the drawing it is %q", text)
	}
}

// address: the state of packets, and the order of flows, are in the address, and so they are there after a reload.
func address(t *testing.T, w *world, p *page) {
	p.show("packets", "domain", w.lab)
	p.see("tbody tr")
	p.do(selectOption("section.main select", "lost"))
	p.wait("only lost packets", `[...document.querySelectorAll('tbody .state')].every((s) => s.textContent === 'lost') && document.querySelector('tbody .state')`)
	p.show("flows", "domain", w.lab)
	p.see("tbody tr")
	p.do(selectOption("section.main select", "loss"))
	first := `document.querySelector('tbody tr')?.textContent.includes('(100 %)')`
	p.wait("the flow with losses is first", first)
	if hash := eval[string](p, `location.hash`); !strings.Contains(hash, "sort=loss") {
		t.Errorf("the address is %s", hash)
	}
	p.do(chromedp.Reload())
	p.wait("the flow with losses is first", first)
}

// space: it plays at once after a click on Time machine, which is pressed then and has nothing else to do.
func space(t *testing.T, w *world, p *page) {
	p.show("topology", "domain", w.lab)
	p.click(button("Time machine"))
	p.wait("packets are loaded", `radar.player.loaded.value.packets > 0 && !radar.player.loaded.value.loading`)
	p.do(chromedp.SendKeys(chromedp.CSS(".modes button:last-child"), " "))
	p.wait("it plays", `radar.player.playing.value`)
}

// save: the drawing of a moment is a file, with what it is of.
func save(t *testing.T, w *world, p *page) {
	p.show("topology", "domain", w.lab, "mode", "machine")
	p.wait("packets are loaded", `radar.player.loaded.value.packets > 0 && radar.scene`)
	eval[bool](p, `(() => { window.saved = []; URL.createObjectURL = (blob) => { saved.push(blob); return '#'; }; HTMLAnchorElement.prototype.click = function () { this.download && saved.push(this.download); }; return true; })()`)
	p.click(`document.querySelector('[aria-label="Save the drawing as SVG"]')`)
	p.click(`document.querySelector('[aria-label="Save the drawing as PNG"]')`)
	p.wait("two files", `saved.length === 4`)
	svg := eval[string](p, `saved[0].text()`)
	moment := eval[string](p, `radar.player.isoOf(radar.player.machine.t)`)
	for _, part := range []string{"<svg xmlns=", ">r2</text>", "radar, domain " + w.lab + " · " + moment} {
		if !strings.Contains(svg, part) {
			t.Errorf("the SVG has no %s", part)
		}
	}
	if !eval[bool](p, `saved[0].text().then((svg) => { const d = new DOMParser().parseFromString(svg, saved[0].type); return !d.querySelector('parsererror') && d.querySelectorAll('text').length > 6; })`) {
		t.Error("the SVG is none")
	}
	type picture struct {
		Type string
		Size int
		Name string
	}
	png := eval[picture](p, `({ Type: saved[2].type, Size: saved[2].size, Name: saved[3] })`)
	if png.Type != "image/png" || png.Size < 5000 || !strings.HasPrefix(png.Name, "radar-"+w.lab+"-") || !strings.HasSuffix(png.Name, ".png") {
		t.Errorf("the PNG is %+v", png)
	}
}

// TestBridge: a link over a bridge, whose halves nobody can time, is not drawn as one that nothing passes.
func TestBridge(t *testing.T) {
	w := newWorld(t, "switches")
	w.background("h4", "ping", "-i", "0.05", "10.0.0.5")
	p := open(t, w.url)
	p.show("topology", "domain", w.lab)
	p.wait("the link is in use", `radar.store.graph.edges.some((e) => e.from === 'h4/eth0' && radar.store.loadOf(e.from + ' > ' + e.to).used)`)
	const colour = `(() => {
		const { scene, store, colours } = radar, edge = store.graph.edges.find((e) => e.from === 'h4/eth0'), line = scene.lines.get(edge), theme = colours(store.theme.value);
		const ratio = scene.base.width / scene.camera.width, d = scene.base.getContext('2d').getImageData(((line.ax + line.bx) / 2 - 12) * ratio, ((line.ay + line.by) / 2 - 12) * ratio, 24 * ratio, 24 * ratio).data;
		const count = (hex) => { const c = hex.slice(1).match(/../g).map((h) => parseInt(h, 16)); let n = 0; for (let i = 0; i < d.length; i += 4) n += c.every((v, k) => Math.abs(d[i + k] - v) < 12); return n; };
		return { Idle: count(theme.idle), Used: count(theme.untimed) };
	})()`
	type seen struct{ Idle, Used int }
	nstest.WaitFor(t, "its colour", func() bool { s := eval[seen](p, colour); return s.Used > 10 && s.Idle == 0 })
	p.shot("bridge-1280")
	p.clean()
}
