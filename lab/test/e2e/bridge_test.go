// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/record"
)

// TestBridge sends everything that containers on a bridge send, and looks from all
// places outside of the domain: nothing may bear a trace, and every story be true.
func TestBridge(t *testing.T) {
	for _, c := range []struct {
		name        string
		brNetfilter bool
		flags       []string
	}{
		{"plain", false, nil},
		{"br_netfilter", true, nil},
		{"header", false, []string{"--carry", "header"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "plain" {
				need.Nightly(t)
			}
			testBridge(newBridged(t, c.brNetfilter), c.brNetfilter, c.flags)
		})
	}
}

func testBridge(b *bridged, brNetfilter bool, flags []string) {
	t := b.t
	b.attachWith(flags, "a", "b")
	outside := []*tcpdump{b.listen("u", "eth0"), b.listen("host", "vu"), b.listen("w", "eth0"), b.listen("host", "wan")}
	var hooks []*tcpdump
	for _, n := range []string{"host", "a", "b", "u", "w"} {
		hooks = append(hooks, b.listen(n, "nflog"))
	}
	b.traffic()
	b.carried()
	sent := make(map[string]bool)
	seen := make(map[string][]seenPacket)
	for _, d := range hooks {
		packets := d.packets(t)
		for _, p := range packets {
			if p.sent {
				sent[content(p.ip)] = true
			}
		}
		// br_netfilter shows its rules what is on the link, which is inside the domain.
		if d.node != "host" || !brNetfilter {
			seen["netfilter of "+d.node] = packets
		}
	}
	for _, d := range outside {
		seen[d.cmd.Args[4]+" of "+d.node] = d.packets(t)
	}
	for where, packets := range seen {
		wantTrue(t, where, packets, sent)
	}
	b.wantStories(brNetfilter)
}

// traffic goes from everywhere to everywhere.
func (b *bridged) traffic() {
	ping := func(from, to string, args ...string) {
		b.Run(from, append([]string{"ping", "-q", "-n", "-c", "20", "-i", "0.005", "-W", "60", to}, args...)...)
	}
	for _, p := range [][2]string{
		{"a", addrB}, {"a", addrU}, {"a", addrHost}, {"a", addrWAN}, {"a", addrW},
		{"u", addrB}, {"host", addrA}, {"host", addrU},
	} {
		ping(p[0], p[1])
		ping(p[0], p[1], "-M", "dont")
	}
	ping("a", addrB, "-s", "4000", "-M", "dont")
	ping("a", addrU, "-s", "4000", "-M", "dont")
	ping("u", addrB, "-s", "4000", "-M", "dont")
	// Errors: a router's, a container's, the host's.
	b.Try("a", "ping", "-q", "-n", "-c", "3", "-i", "0.01", "-W", "0.2", "-t", "1", addrW)
	for _, to := range []string{addrB, addrU, addrHost, addrW} {
		b.Try("a", "bash", "-c", "for i in 1 2 3; do echo something longer than a header > /dev/udp/"+to+"/9; done")
	}
	b.Try("u", "bash", "-c", "for i in 1 2 3; do echo something longer than a header > /dev/udp/"+addrB+"/9; done")
	b.tcp("b", "a", addrA, "5201")
	b.tcp("u", "a", addrA, "5201")
	b.tcp("a", "u", addrU, "5201")
	b.tcp("host", "a", addrA, "5201")
	b.tcp("a", "w", addrW, "5201")
	b.tcp("w", "a", addrWAN, "5201") // published
	b.tcp("b", "a", addrWAN, "5201") // hairpin
	b.tcp("a", "b", addrB, "5202")   // REDIRECT
}

// tcp sends 2 MB each way, in trains.
func (b *bridged) tcp(from, server, to, port string) {
	b.t.Helper()
	stop, ended := startIperfServer(b.t, server, exec.Command("nsenter", "--net="+b.Path(server), "iperf3", "-s", "-1", "--forceflush"))
	b.Run(from, "iperf3", "-c", to, "-p", port, "-n", "2M", "--bidir")
	<-ended
	stop()
}

// story is a record in short: the nodes and the state.
func story(r *record.Record) string {
	var nodes []string
	for _, h := range r.Hops {
		nodes = append(nodes, h.Node)
	}
	return strings.Join(nodes, " > ") + " " + string(r.State)
}

// wantStories checks every record of a conversation against what it must be.
func (b *bridged) wantStories(brNetfilter bool) {
	t := b.t
	b.settle(t)
	host := b.Name("host")
	want := map[string][]string{
		addrA + " " + addrB:    {"a > b delivered"},
		addrB + " " + addrA:    {"b > a delivered"},
		addrA + " " + addrU:    {"a > host left"},
		addrU + " " + addrA:    {"host > a delivered"},
		addrU + " " + addrB:    {"host > b delivered"},
		addrB + " " + addrU:    {"b > host left"},
		addrA + " " + addrHost: {"a > host delivered"},
		addrHost + " " + addrA: {"host > a delivered"},
		addrA + " " + addrWAN:  {"a > host delivered"},
		addrA + " " + addrW:    {"a > host left"},
		addrW + " " + addrA:    {"host > a delivered"},
		addrHost + " " + addrU: {"host > host left"},
		addrU + " " + addrHost: {"host > host delivered"},
	}
	if brNetfilter {
		// It changes addresses on the bridge and hands the packet to the bridge device,
		// but not to the host: that stays one story.
		want[addrB+" "+addrWAN] = []string{"b > host > a delivered"}
		want[addrA+" "+addrHost] = append(want[addrA+" "+addrHost], "a > host > b delivered")
	}
	// A flood shows the copies in one line.
	tolerated := 0
	stories, wrong := make(map[string]int), make(map[string]int)
	for _, r := range b.records(t) {
		got := strings.ReplaceAll(story(&r), host, "host")
		pair := r.Src + " " + r.Dst
		stories[pair+": "+got]++
		w := want[pair]
		if w == nil || slices.Contains(w, got) {
			continue
		}
		if strings.Contains(got, " > b > ") && r.State == record.Delivered {
			tolerated++
			continue
		}
		wrong[fmt.Sprintf("%s %s: %s, want %v", pair, r.Proto, got, w)]++
	}
	for text, n := range wrong {
		t.Errorf("%d records of %s", n, text)
	}
	for pair, w := range want {
		if stories[pair+": "+w[0]] == 0 {
			t.Errorf("no record of %s: %s", pair, w[0])
		}
	}
	var lines []string
	for s, n := range stories {
		lines = append(lines, fmt.Sprintf("%5d %s", n, s))
	}
	slices.Sort(lines)
	s := b.status(t)
	t.Logf("stories:\n%s\ncounters: %s\nflooded: %d", strings.Join(lines, "\n"), s.notable(), tolerated)
}
