// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// soak says that all the time in the world is there.
var soak = os.Getenv("RADAR_SOAK") != ""

// times is how often a fault is tried: as often as full says by "make soak", else a tenth
// of it.
func times(full int) int {
	if soak {
		return full
	}
	return max(1, full/10)
}

// TestAgentEnds ends the agent again and again in the middle of flows at full rate, and
// attaches again. Nothing that arrives may differ from what was sent; recording goes on
// while nobody reads, as the lease lasts; no packet is forgotten.
func TestAgentEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		full int
		end  func(t *testing.T, pid int)
	}{
		{"killed", 100, kill},
		{"out of memory", 20, starve},
	} {
		t.Run(c.name, func(t *testing.T) {
			need.Nightly(t) // TestSourcesStop kills an agent, too
			n := times(c.full)
			ctx := lifetime(t)
			net := startNetwork(ctx, t, "chain")
			f := startStopFlows(t, net)
			rad := net.attach(t, routers(net.nodes()), "--lease", "10s")
			rnd := rand.New(rand.NewPCG(1, uint64(n)))
			var longest time.Duration
			for i := range n {
				time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
				c.end(t, rad.status(t).Agent.PID)
				before := rad.counter(t, "marked")
				time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
				if rad.status(t).Agent.Alive {
					t.Fatalf("round %d: the agent lives", i)
				}
				nstest.WaitFor(t, "recording to go on, or its lease to end", func() bool {
					return rad.counter(t, "marked") > before || !rad.status(t).Lease.Valid
				})
				start := time.Now()
				rad.reattach(t, net, "--lease", "10s")
				longest = max(longest, time.Since(start))
				if s := rad.status(t); !s.Agent.Alive || !s.Lease.Valid {
					t.Fatalf("round %d, attached again: %+v, %+v", i, s.Agent, s.Lease)
				}
				nstest.WaitFor(t, "recording to go on", func() bool { return rad.counter(t, "marked") > before })
			}
			report := &oracle.Report{Times: n, Title: fmt.Sprintf("agent %s %d times under full load", c.name, n)}
			account := rad.account(t, f)
			report.Add(append(f.since("whole run"), account)...)
			report.Title += fmt.Sprintf("; attached again within %s at the latest", longest.Round(time.Millisecond))
			keepReport(t, report)
			if !report.OK() {
				t.Error("packets differ, or are not accounted for: see the table")
			}
		})
	}
}

// account ends the flows and says, as a row, how many packets radar has no answer for.
func (r *radar) account(t *testing.T, f *stopFlows) *oracle.Row {
	t.Helper()
	f.finish(t)
	return r.settleRow(t)
}

// settleRow is the account of a domain whose flows have ended.
func (r *radar) settleRow(t *testing.T) *oracle.Row {
	t.Helper()
	return r.settle(t).Totals.row(need.IsNightly(t))
}

// row says how many packets nothing is known of. read: all must have been read before their
// slots were used again, for which the agent must have had a CPU in time.
func (s totals) row(read bool) *oracle.Row {
	wrong := max(s.Unaccounted, -s.Unaccounted)
	if read {
		wrong += s.Unread
	}
	return &oracle.Row{
		Check: "seen = what became of them", Compared: s.Seen, Wrong: wrong,
		Note: fmt.Sprintf("not measured %d, unread %d", s.NotMeasured, s.Unread),
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatal("radar status shows no agent")
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill the agent: %v", err)
	}
	waitGone(t, pid)
}

// waitGone waits for the end of a process that is no child of ours.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	nstest.WaitFor(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(b), ") Z ")
	})
}

// starve lets the kernel's out-of-memory killer end a process: in a control group of its
// own that may have no page more than it has.
func starve(t *testing.T, pid int) {
	t.Helper()
	write := func(file, text string) error {
		return os.WriteFile(file, []byte(text), 0)
	}
	parent, limit, usage := "/sys/fs/cgroup", "memory.max", "memory.current"
	if _, err := os.Stat(filepath.Join(parent, "cgroup.controllers")); err != nil { // version 1
		parent, limit, usage = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
	}
	dir := filepath.Join(parent, uniqueName())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatalf("make a control group: %v", err)
	}
	defer os.Remove(dir)
	file := func(name string) string { return filepath.Join(dir, name) }
	_ = write(file("memory.swappiness"), "0") // version 1
	_ = write(file("memory.swap.max"), "0")   // version 2
	// Nothing: with a little it would live on for seconds, in search of memory, while the ring comes round.
	if err := write(file(limit), "0"); err != nil {
		t.Fatalf("limit memory: %v", err)
	}
	if err := write(file("cgroup.procs"), strconv.Itoa(pid)); err != nil {
		t.Fatalf("move the agent to %s: %v", dir, err)
	}
	used, _ := os.ReadFile(file(usage))
	t.Logf("the agent may have no more, has %s", strings.TrimSpace(string(used)))
	waitGone(t, pid)
}

// TestRingWraps: more packets are in flight, in a function that holds each for a second, than
// the ring has slots. Those that find none are counted, the others are
// restored, and the ring comes round many times.
func TestRingWraps(t *testing.T) {
	const slots = 4096
	for _, carry := range []string{"mark", "header"} {
		t.Run(carry, func(t *testing.T) {
			if carry != "mark" {
				need.Nightly(t)
			}
			n := startLab(t, "forwarded", nil, "10.0.0.1", "10.0.0.2")
			rad := n.attach(t, n.nodes(), "--slots", strconv.Itoa(slots), "--timeout", packetTimeout, "--carry", carry)
			n.forward(t, nil, nil, "--delay", "1s", "--queue", "100000")
			for port := range selfPorts {
				n.sink(t, "h2", selfPortBase+port)
			}
			f := n.startSelfFlow(t, "h1", "h2", 0, 50*time.Microsecond)
			if need.IsNightly(t) {
				time.Sleep(time.Duration(times(30)) * time.Second)
			}
			nstest.WaitFor(t, "the ring to wrap, and packets that find no slot", func() bool {
				s := rad.status(t)
				return rad.counter(t, "marked") >= 3*slots && s.notMeasured() > 0
			})
			f.finish(t)
			s := rad.settle(t)
			report := &oracle.Report{Title: fmt.Sprintf("%s: %d packets through %d slots, each held for 1 s", carry, f.sent.Load(), slots)}
			rows := f.rowsByKind()
			for _, row := range rows[sameStart:] {
				// docs/transparency.md: packets that content cannot tell apart, half of them without a slot.
				if 100*row.Wrong < 3*row.Compared {
					row.Note = fmt.Sprintf("%d were taken for others (docs/transparency.md)", row.Wrong)
					row.Wrong, row.Findings = 0, nil
				}
			}
			report.Add(append(rows, s.Totals.row(false))...)
			keepReport(t, report)
			if !report.OK() {
				t.Error("packets differ, or are not accounted for: see the table")
			}
		})
	}
}

// TestInterfacesComeAndGo makes and removes interfaces of an attached node under load. The
// agent follows; the kernel is left with no program that hangs on nothing.
func TestInterfacesComeAndGo(t *testing.T) {
	n := times(1000)
	if !need.IsNightly(t) {
		n = 20
	}
	ctx := lifetime(t)
	net := startNetwork(ctx, t, "chain")
	f := startStopFlows(t, net)
	rad := net.attach(t, routers(net.nodes()))
	_, before := rad.tcxLinks(t)
	node := rad.nodes[0]
	rnd := rand.New(rand.NewPCG(2, uint64(n)))
	for range n {
		net.run(t, node, "ip", "link", "add", "gone0", "up", "type", "veth", "peer", "name", "gone1")
		net.run(t, node, "ip", "link", "set", "gone1", "up")
		time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
		net.run(t, node, "ip", "link", "delete", "gone0")
	}
	end := time.Now().Add(goneMost())
	report := &oracle.Report{Times: n, Title: fmt.Sprintf("interfaces made and removed %d times under full load", n)}
	links, defunct := rad.tcxLinks(t)
	for defunct != before && time.Now().Before(end) {
		time.Sleep(100 * time.Millisecond)
		links, defunct = rad.tcxLinks(t)
	}
	account := rad.account(t, f)
	report.Add(append(f.since("whole run"), account,
		&oracle.Row{Check: "links of ours on an interface", Compared: links, Wrong: defunct - before})...) // none: no TCX?
	keepReport(t, report)
	if !report.OK() {
		t.Error("packets differ, are not accounted for, or links are left: see the table")
	}
}

// goneMost is how long the agent may take to follow what has gone: 5 s by "make soak"; on a
// busy machine it may lag.
func goneMost() time.Duration {
	if soak {
		return 5 * time.Second
	}
	return nstest.Patience
}

// tcxLinks counts the TCX links of the domain's programs, and those whose interface is gone.
// Others test radar at the same time: a program is the domain's if it goes on to its programs.
func (r *radar) tcxLinks(t *testing.T) (all, defunct int) {
	t.Helper()
	pinned, err := ebpf.LoadPinnedMap(filepath.Join(domain.PinDir(r.domain), "progs"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	programs, err := pinned.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := programs.ID()
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil || info.TCX() == nil {
			continue
		}
		prog, err := ebpf.NewProgramFromID(info.Program)
		if err != nil {
			continue // gone meanwhile
		}
		about, err := prog.Info()
		prog.Close()
		if err != nil || about.Name != "rdr_in" && about.Name != "rdr_out" {
			continue
		}
		if maps, _ := about.MapIDs(); !slices.Contains(maps, id) {
			continue
		}
		all++
		if info.TCX().Ifindex == 0 {
			defunct++
		}
	}
	if err := links.Err(); err != nil {
		t.Fatalf("list links: %v", err)
	}
	return all, defunct
}
