// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/servers"
)

// TestAccessible: axe-core finds nothing on any view, on a desk and on a phone, in dark and in light, in the time machine,
// and beside details of a link, a node, a flow and a packet.
func TestAccessible(t *testing.T) {
	axe, err := os.ReadFile(servers.File(t, "axe/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "bottleneck")
	stop := w.load()
	p := open(t, w.url)
	var all []string
	check := func(what string) {
		t.Helper()
		eval[bool](p, string(axe)+"\n; true")
		type violation struct {
			ID, Help string
			Nodes    []struct{ HTML, FailureSummary string }
		}
		var found []violation
		// The whole page counts, as for whoever uses it; the canvas has words beside it.
		text := eval[string](p, `axe.run(document, { resultTypes: ['violations'] }).then((r) => JSON.stringify(r.violations))`)
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err, text)
		}
		for _, v := range found {
			all = append(all, fmt.Sprintf("%s: %s: %s, %d times, as in %s: %s", what, v.ID, v.Help, len(v.Nodes), v.Nodes[0].HTML, v.Nodes[0].FailureSummary))
		}
	}
	p.show("topology", "domain", w.lab)
	p.wait("losses are shown", `document.querySelector('.links .loss') && document.querySelector('.nodes .loss')`)
	stop() // nothing changes while it is looked at
	views := map[string]string{"packets": "tbody tr", "flows": "tbody tr", "paths": "tbody tr", "losses": "tbody tr", "int": "h1", "topology": "[data-link]"}
	for _, size := range [][2]int64{{1280, 800}, {390, 844}} {
		for _, theme := range []string{"dark", "light"} {
			p.size(size[0], size[1], theme)
			for view, there := range views {
				p.show(view, "domain", w.lab)
				p.see(there)
				p.wait("all questions have an answer", `!document.querySelector('.loading')`)
				check(fmt.Sprintf("%s, %d pixels, %s", view, size[0], theme))
			}
		}
	}
	p.size(1280, 800, "dark")
	for _, sel := range []string{"link:r2/eth1 > r3/eth0", "node:r1"} {
		p.show("topology", "domain", w.lab, "sel", sel)
		p.see(".plot .bars")
		check(sel)
	}
	for view, there := range map[string]string{"flows": ".percentiles", "packets": ".story"} {
		p.show(view, "domain", w.lab)
		p.click(`document.querySelector('tbody tr')`)
		p.see(there)
		check("details beside " + view)
	}
	p.show("topology", "domain", w.lab, "mode", "machine")
	p.wait("packets are loaded", `radar.player.loaded.value.packets > 0`)
	check("time machine")
	p.click(`[...document.querySelectorAll('nav.views a')].find((a) => a.textContent === 'Losses')`)
	p.click(`[...document.querySelectorAll('table')].find((t) => t.caption.textContent === 'Losses by place and reason')?.tBodies[0].rows[0]`)
	p.see("h1 .until")
	p.see("p.until")
	check("losses and a panel in the time machine")
	p.click(`document.querySelector('[aria-label^="Help"]')`)
	p.see("dialog")
	check("help")
	p.clean()
	if len(all) > 0 {
		t.Error(strings.Join(all, "\n"))
	}
}
