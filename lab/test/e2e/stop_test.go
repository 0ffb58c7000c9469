// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
)

// TestSourcesStop attaches, kills, lets the lease end, attaches again and
// detaches, all in the middle of flows at full rate. What arrives outside the
// domain must be what was sent, at every moment: also while routers still look
// for packets that no source marks any more.
func TestSourcesStop(t *testing.T) {
	ctx := lifetime(t)
	n := startNetwork(ctx, t, "chain")
	f := startStopFlows(t, n)
	report := &oracle.Report{Title: "sources stop in the middle of full-rate flows"}
	const lease = 2 * time.Second
	phase := func(name string, d time.Duration) { report.Add(f.phase(t, name, d)...) }
	phase("before", time.Second)

	rad := n.attach(t, routers(n.nodes()), "--lease", lease.String())
	phase("attached", 3*time.Second)
	nstest.WaitFor(t, "a packet that radar marks", func() bool { return rad.counter(t, "marked") > 0 })

	kill(t, rad.status(t).Agent.PID)
	time.Sleep(lease) // which nobody has renewed since
	phase("agent killed", time.Second)
	stopped := rad.counter(t, "marked")
	phase("lease over", 3*time.Second)
	if now := rad.counter(t, "marked"); now != stopped {
		t.Errorf("sources go on after the lease: %d packets marked, then %d", stopped, now)
	}

	rad.reattach(t, n, "--lease", lease.String())
	phase("attached again", 2*time.Second)
	nstest.WaitFor(t, "sources that mark again", func() bool { return rad.counter(t, "marked") > stopped })
	rad.run(t, "detach")
	phase("detached", time.Second)

	f.finish(t)
	report.Title += fmt.Sprintf(": %d probes sent", f.probes.sent.Load())
	keepReport(t, report)
	if !report.OK() {
		t.Error("radar changed packets, see the table")
	}
}

// stopFlows are flows from h1 to h2 at full rate, and what was right and wrong.
type stopFlows struct {
	probes   *selfFlow
	tcp      []*tcpWatch // at h2, at h1
	lastUDP  [2]int64    // right, wrong
	lastKind [kinds]int64
	lastTCP  [2]int64
	stopTCP  func()
}

// startStopFlows sets TTLs that lie in radar's bands and starts UDP and TCP.
func startStopFlows(t *testing.T, n *network) *stopFlows {
	t.Helper()
	const routersBetween = 3
	ttl := map[string]uint8{"h1": 80, "h2": 150}
	for node, v := range ttl {
		n.run(t, node, "sysctl", "-q", "-w", fmt.Sprintf("net.ipv4.ip_default_ttl=%d", v))
	}
	for port := range selfPorts {
		n.sink(t, "h2", selfPortBase+port)
	}
	f := &stopFlows{}
	f.tcp = []*tcpWatch{n.watchTCP(t, "h2", ttl["h1"]-routersBetween), n.watchTCP(t, "h1", ttl["h2"]-routersBetween)}
	f.probes = n.startSelfFlow(t, "h1", "h2", routersBetween, fullRateGap(t))
	tcp := "500M"
	if fullRateGap(t) > 0 {
		tcp = "20M"
	}
	f.stopTCP = n.iperfForever(t, "h1", "h2", "-b", tcp)
	t.Cleanup(f.stopTCP)
	return f
}

// phase lets the flows go on for that long, a quarter of it outside the tier "nightly", and in
// any case until something of each has arrived.
func (f *stopFlows) phase(t *testing.T, name string, d time.Duration) []*oracle.Row {
	t.Helper()
	if !need.IsNightly(t) {
		d /= 4
	}
	time.Sleep(d)
	nstest.WaitFor(t, "packets of UDP and TCP: "+name, func() bool {
		udp, tcp := f.arrived()
		return udp != f.lastUDP && tcp != f.lastTCP
	})
	return f.since(name)
}

// arrived are the packets that have, right and wrong.
func (f *stopFlows) arrived() (udp, tcp [2]int64) {
	udp = [2]int64{f.probes.right.Load(), f.probes.wrong.Load()}
	for _, w := range f.tcp {
		tcp[0] += w.right.Load()
		tcp[1] += w.wrong.Load()
	}
	return udp, tcp
}

// since returns rows of what arrived after the last call.
func (f *stopFlows) since(phase string) []*oracle.Row {
	udp, tcp := f.arrived()
	rows := []*oracle.Row{row(phase+", UDP", udp, f.lastUDP), row(phase+", TCP", tcp, f.lastTCP)}
	if rows[0].Wrong > 0 {
		for k := range f.lastKind {
			now := f.probes.wrongBy[k].Load()
			rows[0].Note += fmt.Sprintf("%s: %d  ", kindNames[k], now-f.lastKind[k])
			f.lastKind[k] = now
		}
	}
	f.lastUDP, f.lastTCP = udp, tcp
	return rows
}

func row(check string, now, before [2]int64) *oracle.Row {
	right, wrong := int(now[0]-before[0]), int(now[1]-before[1])
	return &oracle.Row{Check: check, Compared: right + wrong, Wrong: wrong}
}

// finish ends the flows and shows the first packet that was wrong.
func (f *stopFlows) finish(t *testing.T) {
	t.Helper()
	f.probes.finish(t)
	f.stopTCP()
	for _, w := range f.tcp {
		w.finish(t)
	}
	if s := f.probes.firstWrong(); s != nil {
		t.Errorf("%d probes arrived wrong; the first:\n%s", f.probes.wrong.Load(), *s)
	}
}

// counter of radar by name.
func (r *radar) counter(t *testing.T, name string) int {
	t.Helper()
	s := r.status(t)
	for _, c := range s.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	t.Fatalf("radar status has no counter %q", name)
	return 0
}

// reattach gives a domain whose agent is gone a new one.
func (r *radar) reattach(t *testing.T, n *network, flags ...string) {
	t.Helper()
	r.run(t, n.attachArgs(r.nodes, flags...)...)
}
