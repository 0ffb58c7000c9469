// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/words"
)

// Where paths are longer than usual, slots are large enough by themselves; where the user has
// made them too small, begin and end of every packet are known all the same, and answers say
// what they lack.
func TestLongPath(t *testing.T) {
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": "14"})
	const h2 = "10.0.15.2"
	attach := func(want string, flags ...string) {
		t.Helper()
		w.Says(append(append([]string{"attach", "-d"}, flags...), w.Lab.AttachArgs()...), want)
	}
	attach("the longest path has 16 nodes: a slot has")
	w.In("h1", "ping", "-q", "-c", "1", h2)
	w.Settled(2)
	for _, r := range w.Packets() {
		if r.Truncated || len(r.Hops) != 16 {
			t.Errorf("%d hops, truncated %v: %s", len(r.Hops), r.Truncated, words.Path(&r))
		}
	}
	w.Radar(kit.ExitOK, "detach", "--no-drain")

	attach("of packets that pass more, begin and end are known", "--max-hops", "10")
	w.In("h1", "ping", "-q", "-c", "1", h2)
	w.Settled(2)
	for _, r := range w.Packets() {
		last := r.Hops[len(r.Hops)-1]
		if !r.Truncated || r.State != record.Delivered || !last.Gap || last.LinkNs != nil || last.Role != record.Sink || r.LatencyNs == nil {
			t.Errorf("truncated %v, %s, at the end %+v", r.Truncated, r.State, last)
		}
	}
	incomplete := "2 packets have incomplete records"
	w.Says([]string{"latency"}, "h1 > h2", "h2 > h1", incomplete)
	w.Says([]string{"packets"}, "h1 > r1 >", " > ... > h2", incomplete)
	w.Says([]string{"paths"}, " > ... > h2", incomplete)
	w.Says([]string{"packets", "--node", "r12", "--dst", h2}, "no packet matches", "1 packet has an incomplete record: what is asked for may be")
	w.Says([]string{"trace", "--last"}, "delivered", "steps before this one are missing")
	if out := w.Radar(kit.ExitOK, "latency", "--by", "link"); strings.Contains(out, "/eth0 > h2/") {
		t.Errorf("a link over nodes that are missing:\n%s", out)
	}

	// Of what is lost behind the last node that fits, place and reason are known.
	w.In("r11", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f ip protocol icmp drop")
	w.Fails("h1", "ping", "-q", "-c", "1", "-W", "1", h2)
	w.Await([]string{"loss"}, "NETFILTER_DROP")
	rows := askedLosses(w)
	if len(rows) != 1 || rows[0].Node != "r11" || rows[0].Reason != "NETFILTER_DROP" || rows[0].Packets != 1 {
		t.Errorf("losses %+v", rows)
	}
	w.Says([]string{"loss"}, "r11", "firewall rule")
	out := w.Says([]string{"trace", "--last", "--state", "lost"}, "r11", "LOST inside the node", "NETFILTER_DROP")
	if strings.Contains(out, "delivered") {
		t.Errorf("a packet that was lost is delivered:\n%s", out)
	}
}

// askedLosses are the rows of "radar loss".
func askedLosses(w *clitest.World) []aggregate.LossRow {
	w.Helper()
	return clitest.RowsOf[aggregate.LossRow](w, "loss")
}

// A routing loop is called one.
func TestRoutingLoop(t *testing.T) {
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": "2"})
	w.In("r1", "ip", "route", "add", "10.9.9.0/24", "via", "10.0.2.2")
	w.In("r2", "ip", "route", "add", "10.9.9.0/24", "via", "10.0.2.1")
	for _, machine := range []string{"r1", "r2"} {
		w.In(machine, "sysctl", "-qw", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.eth0.send_redirects=0", "net.ipv4.conf.eth1.send_redirects=0")
	}
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--timeout", "2s"}, w.Lab.AttachArgs()...)...)
	w.Fails("h1", "ping", "-q", "-c", "1", "-W", "1", "-t", "7", "10.9.9.9")
	w.Fails("h1", "ping", "-q", "-c", "1", "-W", "1", "-t", "64", "10.9.9.9")
	const loop = "h1 > r1 > r2 > r1 > ...: loop, TTL used up"
	w.Ended(2, "--dst", "10.9.9.9")
	if out := w.Radar(kit.ExitOK, "packets", "--dst", "10.9.9.9"); strings.Count(out, loop) != 2 {
		t.Errorf("not two packets with %q:\n%s", loop, out)
	}
	w.Says([]string{"paths"}, "h1 > r1 > r2 > r1 > ...: loop\n")
	w.Says([]string{"loss"}, "2 packets were lost in a routing loop: r2 > r1 > r2 > ...", "TTL used up")
	w.Says([]string{"packets", "--state", "expired"}, "2 lost (expired is what nobody saw again; a packet whose TTL was used up is lost)")
	w.Says([]string{"trace", "--last", "--state", "lost"}, "It went round in a circle: r2 > r1 > r2, TTL used up.")
	// More room for hops would only hold more of the same.
	if n := w.Status().Totals.Truncated; n != 1 {
		t.Errorf("%d records have no room for all rounds, want the one of TTL 64", n)
	}
	for _, question := range []string{"packets", "paths", "loss", "latency", "trace --last --state lost", "packets --node h2 --dst 10.9.9.9"} {
		if out := w.Radar(kit.ExitOK, strings.Fields(question)...); strings.Contains(out, "max-hops") {
			t.Errorf("radar %s asks for more room:\n%s", question, out)
		}
	}
	for _, row := range askedLosses(w) {
		if row.Node != "r1" && row.Node != "r2" {
			t.Errorf("lost at %q: %+v", row.Node, row)
		}
	}
}

// What dies in the sender before it is sent has no record, and is told of all the same.
func TestUnsent(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Fails("h1", "ping", "-q", "-c", "1", "-W", "10", "10.0.1.77") // nobody has that address
	w.In("h1", "nft", "add table ip t; add chain ip t o { type filter hook output priority 0; }; add rule ip t o udp dport 9 drop")
	for range 3 {
		w.In("h1", "bash", "-c", "echo x > /dev/udp/10.0.2.2/9 || true")
	}
	arp := "h1 dropped 1 packet before it was sent: NEIGH_FAILED (no ARP answer; no node of the domain has 10.0.1.77), icmp to 10.0.1.77"
	rule := "h1 dropped 3 packets before they were sent: NETFILTER_DROP (firewall rule; ip t o (hook output): rule of handle 2), udp to 10.0.2.2:9"
	// All are freed by now: the kernel has told their senders.
	w.Says([]string{"loss"}, arp, rule)
	out := w.Says([]string{"packets", "--dst", "10.0.1.77"}, "no packet was measured", arp)
	if strings.Contains(out, "NETFILTER") {
		t.Errorf("what was not asked for:\n%s", out)
	}
	w.Says([]string{"latency"}, "no packet was measured", arp, rule)
	if n := w.Counter("unsent"); n != 4 {
		t.Errorf("counter unsent: %d, want 4", n)
	}
	// What is sent is no such packet, nor what others drop.
	w.Ping(3)
	w.In("r1", "nft", "add table ip t; add chain ip t f { type filter hook forward priority 0; }; add rule ip t f udp dport 10 drop")
	w.In("h1", "bash", "-c", "echo x > /dev/udp/10.0.2.2/10")
	w.UDPTo("10.0.2.2", 11) // nobody listens
	w.Ended(1, "--dport", "10")
	w.Says([]string{"loss"}, "r1", "NETFILTER_DROP", "firewall rule", arp, rule)
	if n := w.Counter("unsent"); n != 4 {
		t.Errorf("counter unsent: %d, want 4", n)
	}
	// There is room for so many flows; more of them are counted.
	const flows, known, room = 1500, 2, 1024
	w.In("h1", "nft", "add rule ip t o udp dport 20000-30000 drop")
	w.In("h1", "python3", "-c", fmt.Sprintf(`import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in range(20000, 20000 + %d):
    try:
        s.sendto(b"x", ("10.0.2.2", port))
    except PermissionError:
        pass
`, flows))
	if n, over := w.Counter("unsent"), w.Counter("unsent_full"); n != flows+4 || over != flows+known-room {
		t.Errorf("counters: %d unsent, want %d; %d of them in no flow, want %d", n, flows+4, over, flows+known-room)
	}
	w.Says([]string{"loss"}, "1020 more flows", fmt.Sprintf("%d more packets were dropped by nodes before they were sent", flows+known-room))
}

// So is what the kernel of a node cannot send itself: answers of ICMP, and resets of TCP. It sends them by sockets that
// are another namespace's by the time they are freed.
func TestUnsentAnswers(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(1)
	w.In("h2", "ip", "route", "replace", "default", "via", "10.0.2.77") // nobody has that address
	w.Fails("h1", "ping", "-q", "-c", "3", "-i", "0.01", "-W", "1", "10.0.2.2")
	w.Await([]string{"loss"}, "h2 dropped 3 packets before they were sent: NEIGH_FAILED (no ARP answer; no node of the domain has 10.0.2.77), icmp to 10.0.1.1")
	w.UDPTo("10.0.2.2", 9) // nobody listens
	w.Await([]string{"loss"}, "h2 dropped 4 packets before they were sent: NEIGH_FAILED (no ARP answer; no node of the domain has 10.0.2.77), icmp to 10.0.1.1")
	w.Fails("h1", "timeout", "0.5", "bash", "-c", "echo x > /dev/tcp/10.0.2.2/9")
	w.Await([]string{"loss"}, "h2 dropped 5 packets before they were sent: NEIGH_FAILED (no ARP answer; no node of the domain has 10.0.2.77), icmp to 10.0.1.1 (4), tcp to 10.0.1.1:")
	// What crosses a link is no such packet: nobody else has dropped anything.
	if n := w.Counter("unsent"); n != 5 {
		t.Errorf("counter unsent: %d, want 5", n)
	}
}

// An empty answer says why it is empty.
func TestEmptyAnswers(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--slots", "4K", "--timeout", "10m", "--lease", "0"}, w.Lab.AttachArgs()...)...)
	w.Says([]string{"latency"}, "no packet was measured since")
	// Under way.
	w.In("r1", "tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "8bit", "burst", "1600", "limit", "10000")
	for _, port := range []int{8, 9} { // the first uses up the burst
		w.In("h1", "bash", "-c", fmt.Sprintf("head -c 1400 /dev/zero > /dev/udp/10.0.2.2/%d", port))
	}
	w.Await([]string{"packets", "--state", "in_flight", "--dport", "9"}, "h1 > r1")
	const underWay = "1 packet is under way: in no answer before they have ended (not seen for 10m0s, they have expired)"
	for _, question := range []string{"latency", "paths", "flows", "loss", "throughput", "packets --state lost"} {
		w.Says(append(strings.Fields(question), "--dport", "9"), underWay)
	}
	// Another state.
	ping2r1(w, 2)
	w.Await([]string{"flows", "--proto", "icmp"}, "icmp")
	w.Says([]string{"packets", "--state", "lost", "--proto", "icmp", "--src", "10.0.1.1,10.0.1.2"}, "what matches but for --state: 4 delivered")
	// Under way still, beside what has ended.
	for _, question := range []string{"loss", "loss --series", "loss --since 1h", "loss --by flow --dst 10.0.2.2,10.0.1.2"} {
		w.Await(strings.Fields(question), "1 packet is still under way, and in no row: ask again (those that are not seen for 10m0s have expired)")
	}
	if out := w.Radar(kit.ExitOK, "loss", "--proto", "icmp", "--since", "1h"); strings.Contains(out, "under way") {
		t.Errorf("a packet that was not asked for is under way:\n%s", out)
	}
	// Forgotten.
	ping2r1(w, 4200)
	w.Says([]string{"packets", "--src", "10.0.2.2"}, "the ring remembers packets from", "older ones are forgotten (attach with more --slots)")
	w.Radar(kit.ExitOK, "detach", "--no-drain")

	// Not measured.
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--slots", "4K", "--watch", "tcp"}, w.Lab.AttachArgs()...)...)
	ping2r1(w, 2)
	w.Says([]string{"latency"}, "no packet was measured", "packets were not measured: the domain's --watch does not match them")
	w.Radar(kit.ExitOK, "detach", "--no-drain")

	// Nobody there to measure for.
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--slots", "4K", "--lease", "1s"}, w.Lab.AttachArgs()...)...)
	w.Kill()
	nstest.WaitFor(t, "the lease's end", func() bool { return !w.Status().Lease.Valid })
	ping2r1(w, 2)
	w.Says([]string{"latency"}, "no agent runs, and the lease is over", "packets were not measured: no agent renewed the lease then")
}

// ping2r1 sends n echo requests from h1 to r1; all must come back.
func ping2r1(w *clitest.World, n int) {
	w.Helper()
	w.In("h1", "ping", "-q", "-c", fmt.Sprint(n), "-i", "0.001", "10.0.1.2")
}
