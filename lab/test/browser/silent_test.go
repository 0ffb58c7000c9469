// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestNeverSilent: while an agent, a lab, a domain or the server is gone, each view says so in the command line's words,
// with what to do, and no green dot says that packets come. Once they are back, so is the dot.
func TestNeverSilent(t *testing.T) {
	w := newWorld(t, "bottleneck")
	w.load()
	p := open(t, w.url)
	p.expected = []string{"404", "net::ERR_"}
	p.show("topology", "domain", w.lab)
	well := func() {
		t.Helper()
		p.wait("all is well", `document.querySelector('.modes .live.on') && !document.querySelector('.trouble')`)
	}
	says := func(what, text string) {
		t.Helper()
		p.wait(what+" is said", `document.querySelector('.trouble')`)
		nstest.WaitFor(t, what, func() bool {
			return strings.Contains(eval[string](p, `document.querySelector('.trouble')?.textContent ?? ''`), text)
		})
		p.wait("the dot is not green", `!document.querySelector('.modes .live.on')`)
		p.shot("silent-" + strings.ReplaceAll(what, " ", "-"))
	}
	well()

	agent := struct{ Agent struct{ PID int } }{}
	if err := json.Unmarshal([]byte(w.run("status", "--domain", w.lab, "-o", "json")), &agent); err != nil || agent.Agent.PID == 0 {
		t.Fatal(err, agent)
	}
	if err := syscall.Kill(agent.Agent.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	says("no agent", "o agent runs: packets are recorded until the lease ends; go on with: radar attach -d --domain "+w.lab)
	for _, view := range []string{"packets", "flows", "paths", "losses", "int"} {
		p.show(view, "domain", w.lab)
		p.wait(view+" says so, too", `document.querySelector('.trouble.no_agent')?.checkVisibility()`)
	}
	p.show("topology", "domain", w.lab)
	w.run("attach", "-d", "--domain", w.lab)
	well()

	w.stopServing()
	says("no server", "Nothing new comes: radar serve does not answer: is it still running? If not, start it again: radar serve")
	p.wait("the drawing is of the past", `document.querySelector('.drawing.stale') && document.querySelector('.live-text').textContent.includes('as it was last')`)
	if eval[bool](p, `radar.store.graph.edges.some((e) => radar.store.loadOf(e.from + ' > ' + e.to).used)`) {
		t.Error("a link is drawn as if packets passed")
	}
	w.serve(strings.TrimPrefix(w.url, "http://"))
	well()

	w.run("lab", "down", w.lab)
	says("no node", "o node is left: what was measured is still here; end the domain with: radar detach --domain "+w.lab)
	p.wait("the drawing is as it was last", `radar.store.graph.vertices.size > 0`)
	p.show("topology", "domain", w.lab, "mode", "machine")
	p.wait("the server says that no node is left", `radar.store.topology.value && !radar.store.topology.value.nodes?.length`)
	p.wait("the time machine draws what packets passed", `radar.player.loaded.value.packets > 0 && radar.store.graph.edges.length > 0 && radar.player.machine.journeys[0].record.hops.every((h) => document.querySelector('[data-node="' + h.node + '"]'))`)
	p.show("topology", "domain", w.lab, "mode", "live")
	if out, err := exec.Command(w.radar, "detach", "--domain", w.lab, "--no-drain").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	says("no domain", "attach nodes with: radar attach --domain "+w.lab+" NODE...")
	p.show("flows", "domain", w.lab) // one who comes only now is told, too
	says("no domain for who comes later", "attach nodes with: radar attach --domain "+w.lab+" NODE...")
	p.clean()
}
