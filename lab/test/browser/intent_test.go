// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// marked is tcpdump's expression for the flow of the test whose packets bear INT: the mark is DSCP 0x17.
const (
	flow   = "udp and dst port 5001"
	marked = flow + " and ip[1] & 0xfc = 0x5c"
)

// TestIntent: a user adds an intent by the form, sees before what devices would get, and packets bear INT on the link
// between routers, as tcpdump sees them. The user removes it, and none does.
func TestIntent(t *testing.T) {
	w := newWorld(t, "chain", func(w *world) {
		nstest.Cleanup(t, func() { _ = exec.Command(w.radar, "int", "stop", "--domain", w.lab).Run() })
		w.run("int", "topology", "set", "--domain", w.lab, "--lab", w.lab)
		w.run("int", "start", "--domain", w.lab) // ports that speak INT are edges of the domain then
	})
	w.background("h1", "bash", "-c", "while :; do echo probe >/dev/udp/"+w.address("h2")+"/5001; sleep 0.02; done")
	p := open(t, w.url)
	p.expected = []string{"401 (Unauthorized)"} // the page asks for the token when the server does

	p.show("int", "domain", w.lab)
	p.wait("the service runs", `document.querySelector('.service .live.on')`)
	if n := w.packets("r1", "eth1", marked, flow, 20); n != 0 {
		t.Fatalf("%d of 20 packets bear INT before there is an intent", n)
	}

	p.click(button("Add an intent"))
	p.typeInto("input[name=name]", "probes")
	p.do(selectOption("select[name=proto]", "udp"))
	p.typeInto("input[name=dport]", "5001")
	p.shot("intent-form-1280")
	p.click(button("Dry run"))
	p.see("dialog input[name=token]")
	token, err := os.ReadFile(w.token)
	if err != nil {
		t.Fatal(err)
	}
	p.typeInto("dialog input[name=token]", strings.TrimSpace(string(token)))
	p.click(button("Use it"))
	p.wait("what devices would get", `document.querySelector('.plan')?.textContent.includes('5001')`)
	p.shot("intent-plan-1280")
	if n := w.packets("r1", "eth1", marked, flow, 20); n != 0 {
		t.Fatalf("%d of 20 packets bear INT after a dry run", n)
	}
	p.click(button("Apply"))
	p.wait("it is applied", `document.querySelector('tr .tag.applied')`)
	p.shot("int-1280")
	if n := w.packets("r1", "eth1", marked, flow, 20); n != 20 {
		t.Errorf("%d of 20 packets bear INT between r1 and the next node, though the intent is applied", n)
	}
	if n := w.packets("h2", "eth0", marked, flow, 20); n != 0 {
		t.Errorf("%d of 20 packets bear INT at h2, outside of the INT domain", n)
	}
	p.size(390, 844, "dark")
	p.shot("int-390")
	p.size(1280, 800, "dark")

	p.click(`document.querySelector('[aria-label="Remove the intent probes"]')`)
	p.see(".plan")
	p.click(`[...document.querySelectorAll('dialog button')].find((b) => b.textContent.trim() === 'Remove')`)
	p.wait("it is gone", `!document.querySelector('[aria-label="Remove the intent probes"]')`)
	nstest.WaitFor(t, "no packet bears INT", func() bool { return w.packets("r1", "eth1", marked, flow, 20) == 0 })
	p.clean()
}

// packets counts how many of the next n packets that match all match one, on a link.
func (w *world) packets(node, port, one, all string, n int) (found int) {
	w.Helper()
	file := fmt.Sprintf("%s/%s.pcap", w.TempDir(), port)
	w.node(node, "tcpdump", "-n", "-i", port, "-c", strconv.Itoa(n), "-w", file, all)
	if lines := strings.Count(w.node(node, "tcpdump", "-n", "-r", file), "\n"); lines != n {
		w.Fatalf("tcpdump at %s %s saw %d packets, not %d", node, port, lines, n)
	}
	return strings.Count(w.node(node, "tcpdump", "-n", "-r", file, one), "\n")
}

// address is the IPv4 address of a node's eth0.
func (w *world) address(node string) string {
	w.Helper()
	fields := strings.Fields(w.node(node, "ip", "-br", "-4", "address", "show", "dev", "eth0"))
	if len(fields) < 3 {
		w.Fatalf("%s has no address: %q", node, fields)
	}
	address, _, _ := strings.Cut(fields[2], "/")
	return address
}
