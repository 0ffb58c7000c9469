// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/words"
)

// A domain in the background: attach, measure, kill, adopt, detach.
func TestBackground(t *testing.T) {
	w := clitest.NewWorld(t)
	nodes := w.Lab.AttachArgs()
	out := w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, nodes...)...)
	p := w.Agent()
	if want := fmt.Sprintf("process %d, log %s", p.PID, domain.File(w.Domain, "agent.log")); !strings.Contains(out, want) {
		t.Errorf("attach said %q, want %q", out, want)
	}
	w.Ping(5)
	w.Settled(10)
	for _, r := range w.Packets("--state", "delivered") {
		if got := words.Path(&r); got != "h1 > r1 > h2" && got != "h2 > r1 > h1" {
			t.Errorf("path %q", got)
		}
	}

	if out := w.Radar(kit.ExitFailure, "attach"); !strings.Contains(out, fmt.Sprint(p.PID)) {
		t.Errorf("attach beside the living agent said %q", out)
	}
	if out := w.Radar(kit.ExitUsage, "attach", "--lease", "17s"); !strings.Contains(out, "30s") || !strings.Contains(out, "17s") {
		t.Errorf("attach with another lease said %q", out)
	}

	// Nothing is lost when the agent dies, and the next one goes on.
	w.Kill()
	w.Ping(5)
	w.Settled(20)
	if w.Status().Agent.Alive {
		t.Error("a killed agent is alive")
	}
	w.Radar(kit.ExitOK, "attach", "-d")
	w.Ping(5)
	w.Settled(30)
	next := w.Agent()
	if next == p {
		t.Error("the killed agent is back")
	}

	w.Radar(kit.ExitOK, "detach")
	w.Gone(next)
	w.NothingLeft()
	if out := w.Radar(kit.ExitOK, "detach"); !strings.Contains(out, "nothing to do") {
		t.Errorf("second detach said %q", out)
	}
}

// A domain that measures what an expression wants: it shows, and it stays.
func TestWatchedDomain(t *testing.T) {
	w := clitest.NewWorld(t)
	const expr = "icmp[icmptype] = icmp-echo and icmp[6:2] > 1"
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--watch", " " + expr}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	w.Settled(4) // the first echo and the replies are not wanted
	v := w.Status()
	if v.Options.Watch != expr || v.Totals.Seen != 10 || v.Totals.NotMeasured != 6 {
		t.Errorf("watch %q, totals %+v", v.Options.Watch, v.Totals)
	}
	if out := w.Radar(kit.ExitOK, "status"); !strings.Contains(out, "watch      "+expr) || !strings.Contains(out, "not_measured_watch      6") {
		t.Errorf("status said\n%s", out)
	}
	for args, want := range map[string]int{
		"src host 10.0.1.1 and icmp[6:2] > 3":  2,
		"dst net 10.0.2.0/24 and greater 84":   4,
		"--state delivered not src host 1.2.3": 4,
		"icmp[icmptype] = icmp-echoreply":      0,
	} {
		if got := w.Packets(strings.Fields(args)...); len(got) != want {
			t.Errorf("packets %s: %d records, want %d", args, len(got), want)
		}
	}
	w.Radar(kit.ExitOK, "attach", "--role", "r1/eth1=internal", "--watch", expr) // nothing new
	if out := w.Radar(kit.ExitUsage, "attach", "--watch", "tcp"); !strings.Contains(out, expr) || !strings.Contains(out, `"tcp"`) {
		t.Errorf("attach with another expression said %q", out)
	}
}

// A domain in the foreground ends with Ctrl-C and a summary.
func TestForeground(t *testing.T) {
	w := clitest.NewWorld(t)
	cmd, out := w.Foreground(append([]string{"attach"}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"3 nodes, 4 ports", "tcpdump", "detached", "delivered        10", "not measured"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	w.NothingLeft()
}

// A domain in the foreground is detached by another process: both know.
func TestForegroundDetached(t *testing.T) {
	w := clitest.NewWorld(t)
	cmd, out := w.Foreground(append([]string{"attach"}, w.Lab.AttachArgs()...)...)
	w.Ping(5)
	if said := w.Radar(kit.ExitOK, "detach"); !strings.Contains(said, "delivered        10") {
		t.Errorf("detach said %q", said)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "another process") {
		t.Errorf("attach ended with %v\n%s", err, out)
	}
	w.NothingLeft()
}

// Attaching that is interrupted leaves nothing behind.
func TestInterruptedAttach(t *testing.T) {
	w := clitest.NewWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	code := clitest.Run(ctx, append([]string{"attach"}, w.Lab.AttachArgs()...), strings.NewReader(""), &out, &errs)
	if code != kit.ExitFailure || !strings.Contains(errs.String(), "interrupted") || out.Len() > 0 {
		t.Errorf("code %d, stdout %q, stderr %q", code, out.String(), errs.String())
	}
	w.NothingLeft()
}

// The dry run names everything and changes nothing.
func TestDryRun(t *testing.T) {
	w := clitest.NewWorld(t)
	out := w.Radar(kit.ExitOK, append([]string{"attach", "--dry-run", "--role", "r1/eth1=edge"}, w.Lab.AttachArgs()...)...)
	for _, want := range []string{"dry run", "3 nodes, 4 ports", "65536 slots", "MiB", "edge (forced)", "h1/eth0"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	w.NothingLeft()
}

// Roles of a running domain can be changed.
func TestRoleOnly(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Radar(kit.ExitOK, "attach", "--role", "r1/eth1=edge")
	for _, n := range w.Status().Nodes {
		for _, p := range n.Ports {
			if forced := n.Name == "r1" && p.Name == "eth1"; p.Forced != forced || (p.Role == domain.Edge) != forced {
				t.Errorf("port %s/%s is %+v", n.Name, p.Name, p)
			}
		}
	}
	if out := w.Radar(kit.ExitUsage, "attach", "--role", "r1/eth9=edge"); !strings.Contains(out, "eth9") {
		t.Errorf("attach said %q", out)
	}
}

// The domain's agent is told to end: it detaches first.
func TestTerminatedAgent(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	p := w.Agent()
	if err := syscall.Kill(p.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	w.Gone(p)
	w.NothingLeft()
}

// Nodes join and leave a running domain, and its agent notices.
func TestNodesJoinAndLeave(t *testing.T) {
	w := clitest.NewWorld(t)
	nodes := w.Lab.AttachArgs() // h1, r1, h2 in some order
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, nodes[:2]...)...)
	p := w.Agent()
	if out := w.Radar(kit.ExitOK, "attach", nodes[2]); !strings.Contains(out, "goes on") {
		t.Errorf("attach said %q", out)
	}
	w.Ping(2)
	w.Settled(4)
	for _, r := range w.Packets() {
		if len(r.Hops) != 3 {
			t.Errorf("packet with %d hops after the third node joined: %s", len(r.Hops), words.Path(&r))
		}
	}
	if out := w.Radar(kit.ExitUsage, "detach", "nobody"); !strings.Contains(out, "nobody") {
		t.Errorf("detach said %q", out)
	}
	w.Radar(kit.ExitOK, "detach", "h2")
	w.Ping(2)
	w.Settled(8)
	if last := w.Packets("--last", "1", "--src", "10.0.1.1"); len(last) != 1 || last[0].State != record.Left {
		t.Errorf("packet to a node that left: %+v", last)
	}
	if w.Agent() != p {
		t.Error("the agent changed")
	}
	w.Radar(kit.ExitOK, "detach", "h1", "r1")
	w.Gone(p)
	w.NothingLeft()
}

// Packets are shown as they end, and -c ends that.
func TestFollow(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Ping(3)
	w.Settled(6)
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, background.SelfPath, "packets", "-f", "--last", "2", "-c", "6", "--proto", "icmp", "-o", "json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var seqs []int
	dec := json.NewDecoder(stdout)
	for dec.More() {
		var r record.Record
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, *r.ICMPSeq); len(seqs) == 2 {
			w.Ping(2) // the history is out: these are new
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(seqs) != "[3 3 1 1 2 2]" {
		t.Errorf("sequence numbers %v, want the last two of the history and four new ones", seqs)
	}
}

// Sources mark while an agent renews the lease, and no longer than the lease
// lasts without one; traffic passes all the same.
func TestLease(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--lease", "5s"}, w.Lab.AttachArgs()...)...)
	time.Sleep(6 * time.Second) // longer than one lease
	measured := w.PingMeasured(2)
	w.Settled(measured)
	before := w.Status().Totals
	w.Kill()
	nstest.WaitFor(t, "the lease's end", func() bool { return !w.Status().Lease.Valid })
	w.Ping(2)
	nstest.WaitFor(t, "packets that are not measured", func() bool { return w.Status().Totals.NotMeasured >= before.NotMeasured+4 })
	if got := w.Status(); got.Lease.Valid || got.Totals.NotMeasured != before.NotMeasured+4 || got.Totals.Delivered != measured {
		t.Errorf("without an agent: lease %+v, totals %+v, before %+v", got.Lease, got.Totals, before)
	}
	w.Radar(kit.ExitOK, "attach", "-d")
	w.Settled(w.PingMeasured(2))
}

// An agent whose nodes are all gone says so, and ends with the lease.
func TestDeserted(t *testing.T) {
	w := clitest.NewWorld(t)
	n := nstest.New(t, "a", "b")
	n.Veth("a", "e0", "b", "e0")
	w.Radar(kit.ExitOK, "attach", "-d", "--lease", "3s", n.Spec("a"), n.Spec("b"))
	agent := w.Agent()
	n.Delete("a")
	n.Delete("b")
	w.Gone(agent)
	log, err := os.ReadFile(domain.File(w.Domain, "agent.log"))
	if err != nil || !strings.Contains(string(log), "all of its ports are gone") || !strings.Contains(string(log), "its nodes are gone") {
		t.Errorf("the log of agent %d says %q, %v", agent.PID, log, err)
	}
	w.Radar(kit.ExitOK, "detach")
}

// What is left of a domain is explained, with the command that removes it; one node
// that was named does not end all of it.
func TestHalfAttached(t *testing.T) {
	w := clitest.NewWorld(t)
	repair := "radar detach --domain " + w.Domain
	broken := func(what, want string) {
		t.Helper()
		for _, args := range []string{"status", "packets", "trace --last", "topo --load", "loss", "detach h1", "attach", "attach " + w.Lab.AttachArgs()[0]} {
			if _, stderr, code := clitest.Radar(t, strings.Fields(args)...); code != kit.ExitFailure || !strings.Contains(stderr, want) || !strings.Contains(stderr, repair) {
				t.Errorf("%s: %s: code %d, said %q", what, args, code, stderr)
			}
		}
		w.Radar(kit.ExitOK, "detach")
		w.NothingLeft()
	}
	attach := func() string {
		w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
		w.Kill()
		return domain.File(w.Domain, domain.Description)
	}

	if err := os.Remove(attach()); err != nil {
		t.Fatal(err)
	}
	broken("no description", "is half attached")

	if err := os.WriteFile(attach(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken("description damaged", "is damaged")

	description, err := os.ReadFile(attach())
	if err != nil {
		t.Fatal(err)
	}
	w.Radar(kit.ExitOK, "detach")
	if err := os.MkdirAll(domain.Dir(w.Domain), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(domain.File(w.Domain, domain.Description), description, 0o600); err != nil {
		t.Fatal(err)
	}
	broken("no programs", "is half attached")
}

// --domain completes what is attached.
func TestDomainCompletion(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	if out, _, _ := clitest.Radar(t, "__completeNoDesc", "status", "--domain", ""); !strings.HasPrefix(out, w.Domain+"\n") {
		t.Errorf("completion of --domain: %q", out)
	}
	if out, _, _ := clitest.Radar(t, "__completeNoDesc", "trace", "--last", "--node", ""); !strings.HasPrefix(out, "h1\nr1\nh2\n") {
		t.Errorf("completion of --node: %q", out)
	}
	if out, _, _ := clitest.Radar(t, "__completeNoDesc", "trace", ""); out != ":4\n" {
		t.Errorf("completion of a packet: %q", out)
	}
}

// An agent that cannot start fails the command, with its own words.
func TestAgentFails(t *testing.T) {
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Kill()
	pidFile := domain.File(w.Domain, "agent.pid")
	if err := os.Remove(pidFile); err != nil {
		t.Fatal(err)
	}
	lock := domain.File(w.Domain, "agent.lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", lock); err != nil {
		t.Fatal(err)
	}
	if out := w.Radar(kit.ExitFailure, "attach", "-d"); !strings.Contains(out, "start agent: agent lock: "+lock+" is a symbolic link") {
		t.Errorf("attach said %q", out)
	}
	// It was there before: it stays.
	if _, err := domain.Load(w.Domain); err != nil {
		t.Error(err)
	}
}

// TestStatusChangers: what may change packets on links is told when it comes, too.
func TestStatusChangers(t *testing.T) {
	need.AsRoot(t)
	n := nstest.New(t, "sw", "a", "b")
	n.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	for _, name := range []string{"a", "b"} {
		n.Veth(name, "e0", "sw", "p"+name)
		n.Run("sw", "ip", "link", "set", "p"+name, "master", "br0")
	}
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	t.Setenv("RADAR_DOMAIN", nstest.Unique())
	t.Setenv("RADAR_SLOTS", "64K")
	t.Setenv(clitest.ExecEnv, "1")
	nstest.Cleanup(t, func() { clitest.Radar(t, "detach", "--no-drain") })
	const told = "change content of packets on bridges inside the domain (nft bridge t c: tcp option maxseg size set 1000)"
	if stdout, stderr, code := clitest.Radar(t, "attach", "-d", n.Spec("a"), n.Spec("b")); code != kit.ExitOK || strings.Contains(stdout+stderr, "change content") {
		t.Fatalf("attach: code %d, %s%s", code, stdout, stderr)
	}
	n.Run("sw", "nft", "add table bridge t; add chain bridge t c { type filter hook forward priority 0; }; add rule bridge t c tcp option maxseg size set 1000")
	for _, args := range [][]string{{"status"}, {"attach", "-d", n.Spec("a")}} {
		if stdout, stderr, code := clitest.Radar(t, args...); code != kit.ExitOK || !strings.Contains(stdout+stderr, told) {
			t.Errorf("%q: code %d, %s%s", args, code, stdout, stderr)
		}
	}
}
