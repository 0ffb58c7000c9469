// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/oracle"
)

// TestSourcesStop attaches, kills, lets the lease end, attaches again and
// detaches, all in the middle of flows at full rate. What arrives outside the
// domain must be what was sent, at every moment: also while routers still look
// for packets that no source marks any more.
func TestSourcesStop(t *testing.T) {
	ctx := deadline(t, 2*time.Minute)
	n := startNetwork(ctx, t, "chain")
	n.run(t, "h1", "sh", "-c", "echo 80 > /proc/sys/net/ipv4/ip_default_ttl")
	for port := range selfPorts {
		n.sink(t, "h2", selfPortBase+port)
	}
	f := n.startSelfFlow(t, "h1", "h2", 3)
	report := &oracle.Report{Title: "sources stop in the middle of full-rate flows"}
	var right, wrong int64
	phase := func(name string, d time.Duration) {
		time.Sleep(d)
		r, w := f.right.Load(), f.wrong.Load()
		row := &oracle.Row{Check: name, Compared: int(r + w - right - wrong), Wrong: int(w - wrong)}
		right, wrong = r, w
		report.Add(row)
	}
	phase("before", time.Second)

	nodes := []string{"r1", "r2", "r3"}
	rad := n.attach(t, nodes, "--lease", "2s")
	phase("attached", 3*time.Second)
	marked := rad.counter(t, "marked")
	if marked == 0 {
		t.Error("radar marked no packet")
	}

	pid := rad.status(t).Agent.PID
	if pid <= 1 {
		t.Fatalf("radar status shows no agent")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill the agent: %v", err)
	}
	phase("agent killed", 3*time.Second)
	stopped := rad.counter(t, "marked")
	phase("lease over", 3*time.Second)
	if now := rad.counter(t, "marked"); now != stopped {
		t.Errorf("sources go on after the lease: %d packets marked, then %d", stopped, now)
	}

	rad.reattach(t, n, "--lease", "2s")
	phase("attached again", 2*time.Second)
	if now := rad.counter(t, "marked"); now == stopped {
		t.Error("no source marks after attaching again")
	}
	rad.run(t, "detach")
	phase("detached", time.Second)
	f.finish(t)
	phase("the rest", 0)
	report.Rows[len(report.Rows)-1].MayBeEmpty = true
	report.Title += fmt.Sprintf(": %d packets sent", f.sent.Load())
	keepReport(report)
	if s := f.first.Load(); s != nil {
		t.Errorf("%d packets arrived wrong; the first:\n%s", f.wrong.Load(), *s)
	}
	if !report.OK() {
		t.Error("see the table")
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
	args := append([]string{"attach", "-d"}, flags...)
	for _, node := range r.nodes {
		args = append(args, node+"=netns:"+n.lab.NetNSPath(node))
	}
	r.run(t, args...)
}
