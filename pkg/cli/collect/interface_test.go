// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// bmv2 is a report as BMv2 programs send it: its IP checksum is 0.
func bmv2(t *testing.T) []byte {
	t.Helper()
	original := clitest.FrameBytes(t, "geant-bmv2-report")
	_, payload, err := collect.Packet{IP: original[14:]}.UDP()
	if err != nil {
		t.Fatal(err)
	}
	ip, err := collect.AppendUDP(nil, netip.MustParseAddrPort("10.0.0.1:5000"), netip.MustParseAddrPort("10.0.0.2:32766"), payload)
	if err != nil {
		t.Fatal(err)
	}
	ip[10], ip[11] = 0, 0
	return ip
}

// TestCollectInterface: sockets get no report whose IP checksum is 0, and the collector says why. From
// the interface it takes every one of them, as many as tcpdump sees; its status says so.
func TestCollectInterface(t *testing.T) {
	n := nstest.New(t, "s", "c")
	need.Programs(t, "tcpdump")
	n.Veth("s", "eth0", "c", "eth0")
	n.Address("c", "eth0", "10.0.0.2/24")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	t.Setenv(clitest.ExecEnv, "1")
	within := func(name string, args ...string) *exec.Cmd {
		return exec.Command("nsenter", append([]string{"--net=" + n.Path("c"), name}, args...)...)
	}
	said := func(cmd *exec.Cmd) string {
		b, err := os.ReadFile(cmd.Stderr.(*os.File).Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	handle := n.Handle("c")
	link, err := handle.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	to := slices.Clone(link.Attrs().HardwareAddr)
	frame := append(append(to, 2, 0, 0, 0, 0, 1, 8, 0), bmv2(t)...)
	const each = 20
	send := func() {
		t.Helper()
		spec, err := topo.ParseSpec(n.Spec("s"))
		if err == nil {
			err = spec.Do(func() error {
				for range each {
					if err := nstest.SendFrame("eth0", frame); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	captured := filepath.Join(t.TempDir(), "captured.pcap")
	tcpdump := within("tcpdump", "-i", "eth0", "-n", "-U", "-Z", "root", "-w", captured, "udp port 32766")
	clitest.Await(t, tcpdump, "listening on")

	sockets := within(self, "collect", "--hint-after", "10ms")
	clitest.Await(t, sockets, "collecting at")
	send()
	nstest.WaitFor(t, "the collector to say why no report comes", func() bool { return strings.Contains(said(sockets), "use --interface, which takes them") })
	clitest.Interrupt(t, sockets)
	if got := said(sockets); !strings.Contains(got, "no report has come yet") || !regexp.MustCompile(`IpExt InCsumErrors \d+: packets with a wrong IP checksum`).MatchString(got) || !strings.Contains(got, "0 datagrams") {
		t.Errorf("by sockets: %s", got)
	}
	ended, _, _ := clitest.Radar(t, "collect", "status")
	ended = strings.Join(strings.Fields(ended), " ")
	if !strings.Contains(ended, "none: it has ended") || !strings.Contains(ended, "datagrams 0 ") {
		t.Errorf("status at the end:\n%s", ended)
	}

	wire := within(self, "collect", "--interface", "eth0", "--all", "--hint-after", "1ns", "--json", filepath.Join(t.TempDir(), "out"))
	clitest.Await(t, wire, "collecting at interface eth0")
	send()
	nstest.WaitFor(t, "all reports to be taken", func() bool {
		info, err := store.Load("default")
		return err == nil && info.Counts.Reports == each
	})
	status, _, code := clitest.Radar(t, "collect", "status")
	status = strings.Join(strings.Fields(status), " ")
	for _, want := range []string{"collector process ", "interface eth0", "datagrams 20 ", "reports 20 ", "kept 20 ", "json 0 "} {
		if code != kit.ExitOK || !strings.Contains(status, want) {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	clitest.Interrupt(t, wire)
	if got := said(wire); !strings.Contains(got, "20 datagrams, 0 of them no report") || strings.Contains(got, "no report has come") {
		t.Errorf("from the interface: %s", got)
	}
	nstest.WaitFor(t, "tcpdump to write all", func() bool { return clitest.CountPackets(t, captured) == 2*each })
	clitest.Interrupt(t, tcpdump)

	// An interface that goes is an error; a collector that was killed runs no more.
	gone := within(self, "collect", "--interface", "eth0")
	clitest.Await(t, gone, "collecting at interface eth0")
	n.Run("c", "ip", "link", "del", "eth0")
	if err := gone.Wait(); err == nil || gone.ProcessState.ExitCode() != kit.ExitFailure || !strings.Contains(said(gone), "interface eth0 has gone") {
		t.Errorf("gone: %v, %s", err, said(gone))
	}
	killed := within(self, "collect")
	clitest.Await(t, killed, "collecting at")
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	if stdout, stderr, _ := clitest.Radar(t, "collect", "status"); !strings.Contains(stdout, "none: it has ended") || !strings.Contains(stderr, "did not end as it should") {
		t.Errorf("killed: %s%s", stdout, stderr)
	}
}

// TestDocsFirstExample: the sample in the tree gives what the docs show.
func TestDocsFirstExample(t *testing.T) {
	t.Chdir(clitest.Root(t))
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	text, err := os.ReadFile("docs/int.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := bytes.Cut(text, []byte("```console\n"))
	example, _, ends := bytes.Cut(rest, []byte("```\n"))
	if !found || !ends {
		t.Fatal("docs/int.md has no example")
	}
	var got strings.Builder
	commands := 0
	for line := range strings.Lines(string(example)) {
		command, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "$ radar ")
		if !ok {
			continue
		}
		commands++
		stdout, stderr, code := clitest.Radar(t, strings.Fields(command)...)
		if code != kit.ExitOK {
			t.Errorf("%s: code %d", command, code)
		}
		got.WriteString(line + stdout + stderr)
	}
	if got.String() != string(example) || commands != 2 || !bytes.Contains(example, []byte("docs/reports.pcap")) {
		t.Errorf("%d commands; docs/int.md has\n%s\nbut it is\n%s", commands, example, got.String())
	}
}
