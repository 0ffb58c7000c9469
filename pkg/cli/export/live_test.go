// SPDX-License-Identifier: Apache-2.0

package export

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// begin starts an export in a namespace and waits until it follows the ring.
func (w *exportWorld) begin(path string, args ...string) (cmd *exec.Cmd, said func() string) {
	w.Helper()
	cmd = w.within(path, w.self, append([]string{"export", "int"}, args...)...)
	clitest.Await(w.T, cmd, "sending telemetry reports")
	return cmd, saidBy(w.T, cmd)
}

// saidBy reads what a command that Await has begun has said.
func saidBy(t *testing.T, cmd *exec.Cmd) func() string {
	name := cmd.Stderr.(*os.File).Name()
	return func() string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

// wants demands texts in what was said.
func wants(t *testing.T, said string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(said, text) {
			t.Errorf("no %q in\n%s", text, said)
		}
	}
}

// TestExportLive: packets of both versions of IP go to two collectors as they end, by UDP, and
// both have what radar has.
func TestExportLive(t *testing.T) {
	w := newExportWorld(t, "chain", map[string]string{"N": "2", "IPV6": "1"})
	live := t.TempDir()
	collector := w.within(w.net.Path("c"), w.self, "collect", "--all", "--port", "32766,6000", "--domain", w.Domain+"-c",
		"--source", "127.0.0.1=radar,::1=radar", "--node", "1=h1,101=r1,3=r2,4=h2")
	collector.Env = append(os.Environ(), "RADAR_STATE_DIR="+live)
	clitest.Await(t, collector, "collecting at [::]:6000")
	d, err := domain.Load(w.Domain)
	if err != nil {
		t.Fatal(err)
	}
	exporter, said := w.begin(w.net.Path("c"), "--collector", "127.0.0.1:32766,[::1]:6000", "--node-id", "r1=101", "icmp or icmp6")
	for _, to := range []string{"10.0.3.2", "2001:db8:0:3::2"} {
		out, err := w.Lab.Command(t.Context(), "h1", "ping", "-q", "-c", "5", "-i", "0.01", to).CombinedOutput()
		if err != nil {
			t.Fatalf("ping: %v\n%s", err, out)
		}
	}
	own := os.Getenv("RADAR_STATE_DIR")
	stored := func() (info *collect.Info) {
		t.Setenv("RADAR_STATE_DIR", live)
		defer t.Setenv("RADAR_STATE_DIR", own)
		info, err := store.Load(w.Domain + "-c")
		if err != nil {
			return &collect.Info{}
		}
		return info
	}
	nstest.WaitFor(t, "all reports to be kept", func() bool { return stored().Counts.Records >= 40 })
	clitest.Interrupt(w, exporter)
	clitest.Interrupt(w, collector)
	wants(t, said(), "r1    101", "20 packets, 20 of them reported by 20 reports, 0 of these of drops", "127.0.0.1:32766: 20 sent\n", "[::1]:6000: 20 sent\n")
	if c := stored(); c.Counts.Records != 40 || c.Counts.Anomalous+c.Counts.Rejected+c.Gaps+c.SocketDrops > 0 {
		t.Errorf("%+v", c)
	}
	var want, got []told
	for _, r := range w.Packets("--last", "0", "icmp or icmp6") {
		if r.TTLSent != nil {
			r.TTL = *r.TTLSent
		}
		want = append(want, truth(d, r), truth(d, r))
	}
	t.Setenv("RADAR_STATE_DIR", live)
	stdout, _, _ := clitest.Radar(t, "packets", "--last", "0", "-o", "json", "--domain", w.Domain+"-c")
	t.Setenv("RADAR_STATE_DIR", own)
	for _, r := range recordsOf(t, stdout) {
		got = append(got, tell(&r))
	}
	if diff := cmp.Diff(sortTold(want), sortTold(got)); diff != "" || len(want) != 40 {
		t.Errorf("%d packets: %s", len(want), diff)
	}
}

// TestExportLoop: reports that cross the network which is measured, and the answers that nobody
// listens, beget no reports; those of a sample have all of their nodes; the end of the domain is
// the end of the export.
func TestExportLoop(t *testing.T) {
	w := newExportWorld(t, "chain", map[string]string{"N": "1"})
	exporter, said := w.begin(w.Lab.NetNSPath("h1"), "--collector", "10.0.2.2:7777", "--sample", "1")
	w.Ping(10)
	nstest.WaitFor(t, "the reports to be measured", func() bool { return len(w.Packets("--last", "0", "udp", "port", "7777")) >= 20 })
	time.Sleep(10 * kit.FollowEvery) // for what they could beget
	clitest.Interrupt(w, exporter)
	wants(t, said(), "20 packets, 20 of them reported by 20 reports", "10.0.2.2:7777: 20 sent", "without report: to the collectors, or their answers", "that nobody listens there")
	all := w.Packets("--last", "0", "--state", "delivered", "icmp[0] = 0 or icmp[0] = 8")
	if len(all) != 20 {
		t.Fatalf("%d packets", len(all))
	}
	ends := make(map[string]end)
	for _, mode := range []string{modeMD, modeXD} {
		stdout, _ := w.run("export", "int", "--collector", "127.0.0.1:9", "-o", "json", "--last", "0", "--mode", mode, "--sample", "3", "icmp[0] = 0 or icmp[0] = 8")
		v := ended(t, stdout)
		ends[mode] = v
		if v.Packets+v.NotSampled != 20 || v.Packets == 0 || v.NotSampled == 0 || v.Reported != v.Packets {
			t.Errorf("%s: %+v", mode, v)
		}
	}
	if md, xd := ends[modeMD], ends[modeXD]; md.Packets != xd.Packets || xd.Reports != 3*md.Reports {
		t.Errorf("of a sample: %d packets by %d reports, and %d by %d", md.Packets, md.Reports, xd.Packets, xd.Reports)
	}
	begin := time.Now()
	stdout, _ := w.run("export", "int", "--collector", "127.0.0.1:9", "-o", "json", "--last", "10", "--rate", "20", "icmp[0] = 0 or icmp[0] = 8")
	if took, v := time.Since(begin), ended(t, stdout); took < 400*time.Millisecond || v.Collectors[0].Sent != 10 {
		t.Errorf("10 reports, 20 a second: %v, %+v", took, v)
	}
	exporter, said = w.begin(w.net.Path("c"), "--collector", "127.0.0.1:9")
	w.Radar(kit.ExitOK, "detach")
	if err := exporter.Wait(); err != nil {
		t.Error(err)
	}
	wants(t, said(), "was detached", "0 packets")
}

// TestExportRefuses: each error says what is wrong.
func TestExportRefuses(t *testing.T) {
	t.Setenv("RADAR_DOMAIN", "nobody-here")
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"", kit.ExitUsage, "no --collector"},
		{"--collector 127.0.0.1:1", kit.ExitFailure, "is not attached"},
		{"--collector 127.0.0.1:1 --report-version 0.5", kit.ExitUsage, "use 2.0 or 1.0"},
		{"--collector 127.0.0.1:1 --mode int-mx", kit.ExitUsage, "use int-md or int-xd"},
		{"--collector 127.0.0.1:1 --int-port 1 --int-dscp 2", kit.ExitUsage, "use one of them"},
		{"--collector 127.0.0.1:1 --int-port 1 --report-version 1.0", kit.ExitUsage, "INT 1.0 is not marked by a port"},
		{"--collector 127.0.0.1:1 --int-dscp 64", kit.ExitUsage, "use 1 to 63"},
		{"--collector 127.0.0.1:1 --mode int-xd --int-dscp 1", kit.ExitUsage, "there is none"},
		{"--collector 127.0.0.1:1 --state in_flight", kit.ExitUsage, "when they have ended"},
		{"--collector 127.0.0.1:1 --node-id r1", kit.ExitUsage, "use NAME=ID"},
		{"--collector 127.0.0.1:1 --node-id r1=x", kit.ExitUsage, "use NAME=ID"},
		{"--collector 127.0.0.1:1 --node-id r1=1,r1=2", kit.ExitUsage, "twice"},
		{"--collector 127.0.0.1:1 udp prot 5", kit.ExitUsage, "syntax error"},
	} {
		if _, stderr, code := clitest.Radar(t, append([]string{"export", "int"}, strings.Fields(c.args)...)...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: code %d, %s", c.args, code, stderr)
		}
	}
	for _, c := range []struct {
		text string
		code int
		want string
	}{
		{"127.0.0.1", kit.ExitUsage, "use HOST:PORT"},
		{"127.0.0.1:0", kit.ExitUsage, "the port 1 to 65535"},
		{"127.0.0.1:65536", kit.ExitUsage, "the port 1 to 65535"},
		{"127.0.0.1:http", kit.ExitUsage, "the port 1 to 65535"},
		{":32766", kit.ExitUsage, "use HOST:PORT"},
		{"::1:32766", kit.ExitUsage, "use HOST:PORT or [IPV6]:PORT"},
		{"0.0.0.0:1", kit.ExitUsage, "not the address of one machine"},
		{"224.0.0.1:1", kit.ExitUsage, "not the address of one machine"},
		{"[ff02::1%lo]:1", kit.ExitUsage, "not the address of one machine"},
		{"255.255.255.255:1", kit.ExitUsage, "not the address of one machine"},
		{"nobody.invalid:1", kit.ExitFailure, "collector nobody.invalid:1: lookup"},
	} {
		_, err := kit.ResolveCollector(t.Context(), c.text)
		if kit.ExitCode(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if _, err := newSenders(t.Context(), []string{"127.0.0.1:1", "[::ffff:127.0.0.1]:1"}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("one collector twice: %v", err)
	}
}

// TestExportSocket: a report that the kernel does not take is counted by why, and nothing waits.
func TestExportSocket(t *testing.T) {
	list, err := newSenders(t.Context(), []string{"127.0.0.1:9"})
	if err != nil {
		t.Fatal(err)
	}
	defer closeSenders(list)
	s := list[0]
	s.Send(make([]byte, 70000))
	s.Send([]byte("x"))
	if c := s.Counts(); c.Sent != 1 || c.Failed != 1 || c.Errors["message too long"] != 1 {
		t.Errorf("%+v", s.view())
	}
	v := end{Collectors: []collectorView{s.view()}}
	wants(t, strings.Join(v.lines(), "\n"), "127.0.0.1:9: 1 sent, 1 not sent (message too long 1)")
	for _, r := range []record.Record{
		{Proto: "udp", Src: "10.0.0.1", Dst: "127.0.0.1", Sport: clitest.Ptr(1), Dport: clitest.Ptr(9)},
		{Proto: "icmp", Src: "127.0.0.1", Dst: "127.0.0.1", ICMPType: clitest.Ptr(3)},
	} {
		if !s.isOwn(&r) {
			t.Errorf("not own: %+v", r)
		}
	}
	for _, r := range []record.Record{
		{Proto: "udp", Dst: "127.0.0.1", Sport: clitest.Ptr(9), Dport: clitest.Ptr(10)}, {Proto: "tcp", Dst: "127.0.0.1", Dport: clitest.Ptr(9)},
		{Proto: "udp", Dst: "127.0.0.1"}, {Proto: "icmp", Src: "127.0.0.1", Dst: "127.0.0.1", ICMPType: clitest.Ptr(8), ICMPID: clitest.Ptr(1)},
		{Proto: "icmp", Src: "127.0.0.2", Dst: "127.0.0.1", ICMPType: clitest.Ptr(3)},
	} {
		if s.isOwn(&r) {
			t.Errorf("own: %+v", r)
		}
	}
}
