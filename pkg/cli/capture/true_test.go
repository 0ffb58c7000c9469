// SPDX-License-Identifier: Apache-2.0

package capture_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/host/background"
)

// seen makes the kernel copy what a node's stack sees to tcpdump: behind TC ingress and before TC egress, with
// the headers that the node itself has. tcpdump at an interface would show radar's numbers in ID and TTL.
const seen = `table ip seen {
	chain came { type filter hook prerouting priority -400; iifname "eth*" log group 5 snaplen 65000; }
	chain goes { type filter hook postrouting priority 300; oifname "eth*" log group 6 snaplen 65000; }
}`

// sniffer is tcpdump on what a node says of one direction.
type sniffer struct {
	node, direction, file string
	cmd                   *exec.Cmd
}

func sniff(w *clitest.World, node, direction string, group int) *sniffer {
	s := &sniffer{node: node, direction: direction, file: filepath.Join(w.TempDir(), "nflog.pcap")}
	s.cmd = w.Lab.Command(w.Context(), node, "tcpdump", "-i", fmt.Sprintf("nflog:%d", group), "-U", "-Z", "root", "-w", s.file)
	clitest.Await(w.T, s.cmd, "listening on")
	return s
}

// fields are what both captures must have alike, but for the last few, which only whole headers have.
var fields = []string{
	"ip.src", "ip.dst", "ip.id", "ip.ttl", "ip.dsfield", "ip.len", "ip.flags", "ip.frag_offset", "ip.proto", "ip.checksum",
	"udp.srcport", "udp.dstport", "udp.length", "icmp.type", "icmp.code", "icmp.ident", "icmp.seq", "tcp.srcport", "tcp.dstport",
	"tcp.seq_raw", "tcp.ack_raw", "tcp.flags", "tcp.window_size_value", "tcp.hdr_len", "tcp.len",
}

const headerOfTCP = 6 // fields

// packets are the fields of the packets of a capture, sorted. tcp says whether the records have TCP headers.
func packets(t *testing.T, file, filter string, tcp bool) (list []string) {
	t.Helper()
	args := []string{"-n", "-r", file, "-Y", "(" + filter + ") && ip", "-T", "fields", "-E", "occurrence=f", "-o", "tcp.desegment_tcp_streams:FALSE", "-o", "ip.defragment:FALSE"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	out, err := exec.Command("tshark", args...).Output()
	if err != nil { // tcpdump may be writing
		t.Logf("tshark %v: %v", args, err)
		return nil
	}
	for line := range strings.Lines(string(out)) {
		values := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if values[slices.Index(fields, "ip.flags")] == "0x01" { // the length of a datagram is not that of its first fragment
			values[slices.Index(fields, "udp.length")] = ""
		}
		if !tcp {
			values = values[:len(values)-headerOfTCP]
		}
		list = append(list, strings.Join(values, " "))
	}
	slices.Sort(list)
	return list
}

// TestTrueHeaders: behind NAT, a changed DSCP and routers the frames at each port have the headers that the
// nodes' own stacks saw, as the kernel tells tcpdump.
func TestTrueHeaders(t *testing.T) {
	need.Programs(t, "tshark", "tcpdump", "capinfos:wireshark-common")
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": "2"})
	w.In("r1", "nft", "add table ip lab; add chain ip lab p { type nat hook postrouting priority 100; }; add rule ip lab p oifname eth1 masquerade")
	w.In("r2", "nft", "add table ip lab; add chain ip lab p { type filter hook postrouting priority -150; }; add rule ip lab p udp dport 7 ip dscp set af11")
	var sniffers []*sniffer
	for _, m := range w.Lab.Machines {
		w.In(m.Name, "nft", seen)
		sniffers = append(sniffers, sniff(w, m.Name, "in", 5), sniff(w, m.Name, "out", 6))
	}
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	w.Python("h2", server)
	file := filepath.Join(t.TempDir(), "lab.pcapng")
	capture := exec.Command(background.SelfPath, "capture", "-w", file)
	clitest.Await(t, capture, "capturing domain")
	w.In("h1", "ping", "-q", "-c", "5", "-i", "0.02", "-Q", "0x28", "10.0.3.2")
	w.In("h1", "python3", "-c", client)
	before := w.Status().Totals.Seen
	w.Settled(before)
	clitest.Interrupt(t, capture)
	said, err := os.ReadFile(capture.Stderr.(*os.File).Name())
	if err != nil || !strings.Contains(string(said), fmt.Sprintf("%d packets captured (0 of them lost)", before)) ||
		!strings.Contains(string(said), "; 0 packets were overwritten") {
		t.Errorf("said %q, %v; %d packets were seen", said, err, before)
	}
	tcp := len(packets(t, file, "tcp.seq_raw", false)) > 0
	for _, s := range sniffers {
		direction, which := "1", "ip"
		if s.direction == "out" { // the stack sends datagrams as a whole, and cuts them behind its last hook
			direction, which = "2", "ip.len <= 1500 && ip.flags.mf == 0 && ip.frag_offset == 0"
		}
		got := packets(t, file, fmt.Sprintf(`%s && frame.interface_name contains "%s/" && frame.packet_flags_direction == %s`, which, s.node, direction), tcp)
		var want []string
		nstest.WaitFor(t, "tcpdump to have what the kernel told", func() bool {
			want = packets(t, s.file, which, tcp)
			return len(want) >= len(got)
		})
		clitest.Interrupt(t, s.cmd)
		if len(want) < 15 {
			t.Errorf("the kernel told of %d packets only", len(want))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, %s (-kernel +radar):\n%s", s.node, s.direction, diff)
		}
	}
	interfaces(t, file)
}

// interfaces: capinfos names the ports, and finds the frames in order and with nanoseconds.
func interfaces(t *testing.T, file string) {
	t.Helper()
	out, err := exec.Command("capinfos", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Name = h1/eth0\n", "Name = r1/eth0\n", "Name = r1/eth1\n", "Name = r2/eth0\n", "Name = r2/eth1\n", "Name = h2/eth0\n",
		"Number of interfaces in file: 6\n", "Strict time order:   True\n", "nanoseconds (9)\n", "Raw IP",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// server takes datagrams, and connections on which it answers what comes.
const server = `import socket, threading
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("", 7))
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("", 8000)); s.listen()
def udp():
    while True: u.recv(1000)
threading.Thread(target=udp, daemon=True).start()
print("ready", flush=True)
while True:
    c, _ = s.accept()
    while b := c.recv(65536): c.sendall(b[:100])
    c.close()`

const client = `import socket, time
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for n in range(5): u.sendto(b"x" * n, ("10.0.3.2", 7)); time.sleep(0.01)
u.setsockopt(socket.IPPROTO_IP, 10, 0) # IP_MTU_DISCOVER: no DF
for n in range(5): u.sendto(b"y" * n, ("10.0.3.2", 7)); time.sleep(0.01)
u.sendto(b"z" * 3000, ("10.0.3.2", 7)) # fragments
time.sleep(0.01)
s = socket.create_connection(("10.0.3.2", 8000))
for n in range(10): s.sendall(b"x" * 700); s.recv(1000)
s.shutdown(socket.SHUT_WR)
while s.recv(1000): pass`

// TestCount: a capture ends by itself when it has so many packets, and has those ports that were chosen.
func TestCount(t *testing.T) {
	need.Programs(t, "tshark")
	w := clitest.NewWorld(t)
	w.Radar(kit.ExitOK, append([]string{"attach", "-d"}, w.Lab.AttachArgs()...)...)
	file := filepath.Join(t.TempDir(), "h1.pcapng")
	capture := exec.Command(background.SelfPath, "capture", "-w", file, "-c", "4", "--at", "h1", "icmp")
	clitest.Await(t, capture, "capturing domain")
	ended := make(chan error, 1)
	go func() { ended <- capture.Wait() }()
	nstest.WaitFor(t, "the capture to have its packets", func() bool {
		w.Ping(1)
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return true
		default:
			return false
		}
	})
	out, err := exec.Command("tshark", "-n", "-r", file, "-T", "fields", "-e", "frame.interface_name", "-e", "icmp.type").Output()
	if want := strings.Repeat("h1/eth0\t8\nh1/eth0\t0\n", 2); err != nil || string(out) != want {
		t.Errorf("tshark shows %q, %v, want %q", out, err, want)
	}
}
