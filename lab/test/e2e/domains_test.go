// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// TestTwoDomains: two domains share a path. Each sees the true headers of what leaves the
// other, while agents end, one domain comes and goes, and somebody tries to attach what
// is attached already.
func TestTwoDomains(t *testing.T) {
	need.Nightly(t) // TestSourcesStop has one domain that does all this
	net := startNetwork(lifetime(t), t, "chain")
	f := startStopFlows(t, net)
	first := net.attach(t, []string{"r1", "r2"}, "--lease", "30s")
	second := net.attach(t, []string{"r3"})
	report := &oracle.Report{Title: "two domains side by side, under full load"}
	phase := func(name string, wait time.Duration) { report.Add(f.phase(t, name, wait)...) }
	phase("both", 2*time.Second)

	marked := first.counter(t, "marked")
	for _, nodes := range [][]string{{"r1"}, {"r3", "r2"}, {"h1", "r1"}} {
		out, err := net.domain(t, nodes).try(net.attachArgs(nodes)...)
		if err == nil || !strings.Contains(err.Error(), first.domain) && !strings.Contains(err.Error(), second.domain) {
			t.Errorf("attach %v, which another domain has: %v\n%s", nodes, err, out)
		}
	}
	first.reattach(t, net)
	phase("attached nodes attached again", time.Second)
	nstest.WaitFor(t, "recording to go on after somebody else's attach", func() bool { return first.counter(t, "marked") > marked })

	kill(t, second.status(t).Agent.PID)
	phase("agent of one killed", time.Second)
	second.reattach(t, net)
	phase("attached again", time.Second)
	second.run(t, "detach")
	phase("one detached", time.Second)
	second.run(t, net.attachArgs(second.nodes)...)
	phase("and attached", time.Second)
	report.Add(first.account(t, f), second.settleRow(t))
	keepReport(t, report)
	if !report.OK() {
		t.Error("packets differ, or are not accounted for: see the table")
	}
}

// TestSinkGoesFirst removes the node that restores, while the agent is dead and after it
// has come back: what the others still mark must reach nobody as it is marked, not even
// in what ICMP errors quote, and nothing must be forgotten.
func TestSinkGoesFirst(t *testing.T) {
	need.Nightly(t)
	for _, agent := range []string{"dead", "alive"} {
		t.Run(agent, func(t *testing.T) {
			net := startNetwork(lifetime(t), t, "chain")
			for _, node := range net.nodes() {
				net.run(t, node, "sysctl", "-qw", "net.ipv4.icmp_ratelimit=0")
			}
			rad := net.attach(t, routers(net.nodes()), "--lease", "3s")
			quotes := net.checkQuotes(t, "h1")
			f := net.startSelfFlow(t, "h1", "h2", 3, 0)
			nstest.WaitFor(t, "a packet that arrives while r3 is there", func() bool { return f.right.Load() > 0 })
			time.Sleep(time.Second)
			pid := rad.status(t).Agent.PID
			if agent == "dead" {
				kill(t, pid)
			}
			if out, err := exec.Command("ip", "netns", "delete", strings.TrimPrefix(net.lab.NetNSPath("r3"), "/run/netns/")).CombinedOutput(); err != nil {
				t.Fatalf("remove r3: %v\n%s", err, out)
			}
			time.Sleep(time.Second)
			if agent == "dead" {
				rad.run(t, net.attachArgs([]string{"r1", "r2"}, "--lease", "3s")...)
			}
			time.Sleep(2 * time.Second)
			f.finish(t)
			report := &oracle.Report{Title: "the sink's node is removed, the agent is " + agent}
			report.Add(append(f.rowsByKind(), quotes.row(t), rad.settleRow(t))...)
			keepReport(t, report)
			if !report.OK() {
				t.Error("packets differ, or are not accounted for: see the table")
			}
			if s := rad.status(t); !s.Agent.Alive {
				t.Error("the agent has ended")
			}
			rad.run(t, "detach")
			if _, err := os.Stat(domain.Dir(rad.domain)); err == nil {
				t.Error("detaching has left a state directory")
			}
		})
	}
}

// quoted counts self probes that come back in ICMP errors.
type quoted struct {
	right, wrong atomic.Int64
	first        atomic.Pointer[string]
	stop         atomic.Bool
	done         chan error
}

// checkQuotes holds what ICMP errors quote at a node against what was sent: nothing may
// differ but the TTL, which routers have lowered by one each, and the checksum over it.
func (n *network) checkQuotes(t *testing.T, node string) *quoted {
	t.Helper()
	fd := n.receiveRaw(t, node, unix.IPPROTO_ICMP, 100*time.Millisecond)
	q := &quoted{done: make(chan error, 1)}
	go func() {
		defer unix.Close(fd)
		q.done <- q.receive(fd)
	}()
	t.Cleanup(func() { q.stop.Store(true) })
	return q
}

func (q *quoted) receive(fd int) error {
	const outer = 20 + 8 // IP and ICMP
	buf := make([]byte, 65536)
	for {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EAGAIN && q.stop.Load() {
			return nil
		}
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n < outer+28 || buf[20] != 3 && buf[20] != 11 || buf[outer+9] != unix.IPPROTO_UDP {
			continue
		}
		got := buf[outer:n]
		want := selfProbe(nil, [4]byte(got[12:16]), [4]byte(got[16:20]), binary.BigEndian.Uint16(got[20:]), binary.BigEndian.Uint16(got[22:]), 0)
		fell := int(want[8]) - int(got[8])
		if fell >= 0 && fell <= 3 {
			want = selfProbe(nil, [4]byte(got[12:16]), [4]byte(got[16:20]), binary.BigEndian.Uint16(got[20:]), binary.BigEndian.Uint16(got[22:]), fell)
		}
		if len(got) <= len(want) && string(got) == string(want[:len(got)]) {
			q.right.Add(1)
			continue
		}
		q.wrong.Add(1)
		text := hexdump(got, want)
		q.first.CompareAndSwap(nil, &text)
	}
}

func (q *quoted) row(t *testing.T) *oracle.Row {
	t.Helper()
	q.stop.Store(true)
	if err := <-q.done; err != nil {
		t.Error(err)
	}
	if s := q.first.Load(); s != nil {
		t.Errorf("%d quotes are wrong; the first:\n%s", q.wrong.Load(), *s)
	}
	return &oracle.Row{Check: "probes in ICMP errors", Compared: int(q.right.Load() + q.wrong.Load()), Wrong: int(q.wrong.Load())}
}
