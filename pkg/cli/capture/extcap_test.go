// SPDX-License-Identifier: Apache-2.0

package capture_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/radarbin"
	"github.com/vnetradar/radar/p4/wireshark"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// wiresharkOf makes commands of a tshark that has what radar installs, and nothing of this machine.
type wiresharkOf struct {
	*clitest.World
	dir, theirs string
	radar       string // the program
}

func newWireshark(w *clitest.World) *wiresharkOf {
	w.Helper()
	need.Programs(w, "tshark", "unshare:util-linux")
	s := &wiresharkOf{World: w, dir: w.TempDir(), radar: radarbin.Path(w)}
	out, err := exec.Command("tshark", "-G", "folders").Output()
	m := regexp.MustCompile(`(?m)^(?:Global )?Extcap path:\s*(/.+)$`).FindSubmatch(out)
	if err != nil || m == nil {
		w.Fatalf("tshark names no folder of capture programs: %v\n%s", err, out)
	}
	s.theirs = string(m[1])
	w.Radar(kit.ExitOK, "wireshark", "--install", "--folder", s.dir, "--extcap-folder", s.dir, "--program", s.radar)
	w.Setenv("RADAR_PACKETS_PLUGIN", filepath.Join(s.dir, wireshark.Packets.Name()))
	return s
}

// tshark is a command that finds radar in the folder of capture programs. Wireshark heeds no variable of root's that
// names another folder, so that folder is put in the place of everyone's, for this process alone.
func (s *wiresharkOf) tshark(args ...string) *exec.Cmd {
	script := `mount --bind "$1" "$2"; shift 2; exec tshark "$@"`
	plugin := "lua_script:" + os.Getenv("RADAR_PACKETS_PLUGIN")
	return exec.CommandContext(s.Context(), "unshare", append([]string{"-m", "sh", "-ec", script, "sh", s.dir, s.theirs, "-X", plugin, "-n"}, args...)...)
}

// TestExtcap: a lab is among Wireshark's interfaces. A capture there has the true headers, radar's fields, and where
// and why packets are lost; the filter and the nodes that are chosen hold.
func TestExtcap(t *testing.T) {
	w := clitest.NewWorld(t)
	s := newWireshark(w)
	// What is sent to this port comes to h2 alone, and is dropped there by nobody else.
	w.In("r1", "nft", "add table ip lab; add chain ip lab f { type filter hook forward priority 0; }; add rule ip lab f udp dport 9999 drop")
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	nic := "radar-" + w.Domain
	out, err := s.tshark("-D").Output()
	if want := nic + " (radar: lab " + w.Domain + ")\n"; err != nil || !strings.Contains(string(out), want) {
		t.Fatalf("tshark -D: %v, no %q in\n%s", err, want, out)
	}
	out, err = s.tshark("-i", nic, "-L").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "RAW") {
		t.Errorf("link types: %v\n%s", err, out)
	}
	got := s.live([]string{"-i", nic, "-c", "3", "-f", "udp port 9999"}, func() { w.UDPTo("10.0.2.2", 9999) }, "radar.node", "radar.direction", "radar.loss.reason", "ip.ttl", "frame.interface_name")
	want := "h1\tout\tNETFILTER_DROP\t64\th1/eth0\nr1\tin\tNETFILTER_DROP\t64\tr1/eth0\nr1\tlost\tNETFILTER_DROP\t64\tr1/eth0\n"
	if got = withoutLossNode(got); got != want {
		t.Errorf("live, of a lost packet:\n%s\nwant\n%s", got, want)
	}
	got = s.live([]string{"-i", nic, "-c", "2", "-o", "extcap." + strings.ReplaceAll(nic, "-", "_") + ".at:h2", "-f", "icmp"}, func() { w.Ping(1) }, "radar.node", "radar.direction", "icmp.type", "ip.ttl")
	if want := "h2\tin\t8\t63\nh2\tout\t0\t64\n"; got != want {
		t.Errorf("live, at h2:\n%s\nwant\n%s", got, want)
	}
	setting := func(name, value string) string {
		return "extcap." + strings.ReplaceAll(nic, "-", "_") + "." + name + ":" + value
	}
	got = s.live([]string{"-i", nic, "-c", "2", "-o", setting("snaplen", "24"), "-o", setting("payloadat", "h2/eth0"), "-o", setting("at", "h2"), "-f", "icmp"}, func() { w.Ping(1) }, "radar.node", "icmp.type", "frame.cap_len")
	if want := "h2\t8\t52\nh2\t0\t52\n"; got != want {
		t.Errorf("live, with 24 bytes of payload at h2: %q, want %q", got, want)
	}
	out, err = exec.Command(filepath.Join(s.dir, "radar"), "--extcap-interface", nic, "--extcap-capture-filter", "udp prot 5").Output()
	if err != nil || !strings.Contains(string(out), "syntax error") {
		t.Errorf("a wrong filter: %v, %q", err, out)
	}
}

// withoutLossNode: where a packet was lost is a node, too.
func withoutLossNode(text string) string { return strings.ReplaceAll(text, ",r1\t", "\t") }

// live captures while traffic is sent again and again, until tshark has what it was asked for.
func (s *wiresharkOf) live(args []string, send func(), fields ...string) string {
	s.Helper()
	args = append(args, "-l", "-T", "fields")
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := s.tshark(args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	nstest.WaitFor(s, "tshark to end", func() bool {
		send()
		select {
		case err := <-ended:
			if err != nil {
				s.Errorf("tshark %v: %v\n%s", args, err, &said)
			}
			return true
		default:
			return false
		}
	})
	return out.String()
}

// TestPipe: packets come out of a pipe while they are captured, and the end of the reader is no failure.
func TestPipe(t *testing.T) {
	w := clitest.NewWorld(t)
	s := newWireshark(w)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	for _, command := range []string{"packets -f -w - icmp", "capture icmp"} {
		got := s.piped(command, func() { w.Ping(1) })
		if want := "h1/eth0\tr1/eth0\tr1/eth1\th2/eth0\t"; got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// piped is what tshark shows of the first four frames of a command.
func (s *wiresharkOf) piped(command string, send func()) string {
	s.Helper()
	r, wr, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	radar := exec.Command(s.radar, strings.Fields(command)...)
	radar.Stdout = wr
	clitest.Await(s.T, radar, "capturing domain")
	wr.Close()
	tshark := exec.Command("tshark", "-n", "-i", "-", "-c", "4", "-l", "-T", "fields", "-e", "frame.interface_name")
	tshark.Stdin = r
	out, err := tshark.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := tshark.Start(); err != nil {
		s.Fatal(err)
	}
	r.Close()
	done := make(chan string, 1)
	go func() {
		var b bytes.Buffer
		_, _ = b.ReadFrom(out)
		done <- strings.ReplaceAll(b.String(), "\n", "\t")
	}()
	var text string
	nstest.WaitFor(s, "tshark to end", func() bool {
		send()
		select {
		case text = <-done:
			return true
		default:
			return false
		}
	})
	if err := tshark.Wait(); err != nil {
		s.Error(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- radar.Wait() }()
	nstest.WaitFor(s, "radar to end", func() bool {
		send() // what it writes next has no reader
		select {
		case err := <-ended:
			if err != nil {
				s.Errorf("%s: %v", command, err)
			}
			return true
		default:
			return false
		}
	})
	return text
}
