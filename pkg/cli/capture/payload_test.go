// SPDX-License-Identifier: Apache-2.0

package capture_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host/background"
)

// snapLen is how much payload the tests capture.
const snapLen = 100

// payloadServer takes what payloadClient sends.
const payloadServer = `import socket, threading
def only(s, f):
    if f == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
def udp(f):
    u = socket.socket(f, socket.SOCK_DGRAM); only(u, f); u.bind(("", 7)); up.release()
    while True: u.recv(65536)
def tcp(f):
    s = socket.socket(f); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    only(s, f); s.bind(("", 8000)); s.listen(); up.release()
    while True:
        c, _ = s.accept(); n = 0
        while b := c.recv(65536):
            n += len(b)
        c.sendall(b"%d" % n); c.close()
up = threading.Semaphore(0)
for f in (socket.AF_INET, socket.AF_INET6):
    for g in (udp, tcp): threading.Thread(target=g, args=(f,), daemon=True).start()
for _ in range(4): up.acquire()
print("ready", flush=True)
threading.Event().wait()`

// payloadClient sends random bytes: a stream, which makes trains, datagrams of all sizes, a train of datagrams,
// fragments. The addresses are its arguments.
const payloadClient = `import os, random, socket, sys, time
for a in sys.argv[1:]:
    f = socket.AF_INET6 if ":" in a else socket.AF_INET
    s = socket.create_connection((a, 8000)); s.sendall(os.urandom(300000)); s.shutdown(socket.SHUT_WR)
    assert s.recv(100) == b"300000"
    u = socket.socket(f, socket.SOCK_DGRAM); u.connect((a, 7))
    for n in range(30): u.send(os.urandom(random.choice([0, 1, 7, 8, 20, 99, 100, 101, 1400]))); time.sleep(0.001)
    u.send(os.urandom(4000)) # fragments
    u.setsockopt(socket.IPPROTO_UDP, 103, 1000) # UDP_SEGMENT
    for n in range(3): u.send(os.urandom(7300)); time.sleep(0.01)`

// payloads are what packets of a capture have behind their headers, the first bytes of it, sorted. keep says which
// frames count, by the interface.
func payloads(t *testing.T, file string, keep func(nic string) bool) (list []string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var next func() ([]byte, gopacket.CaptureInfo, error)
	link, name := layers.LinkTypeRaw, func(gopacket.CaptureInfo) string { return "" }
	if r, err := pcapgo.NewNgReader(bytes.NewReader(b), pcapgo.NgReaderOptions{WantMixedLinkType: true}); err == nil {
		next = r.ReadPacketData
		name = func(info gopacket.CaptureInfo) string {
			nic, err := r.Interface(info.InterfaceIndex)
			if err != nil {
				t.Fatal(err)
			}
			return nic.Name
		}
	} else if r, err := pcapgo.NewReader(bytes.NewReader(b)); err == nil {
		next, link = r.ReadPacketData, r.LinkType()
	} else {
		t.Fatal(err)
	}
	for {
		data, info, err := next()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !keep(name(info)) {
			continue
		}
		if text := payloadOf(data, link); text != "" {
			list = append(list, text)
		}
	}
	slices.Sort(list)
	return list
}

// payloadOf names a packet by its addresses and ports, and by the beginning of its payload; "": it has none, or is none of
// those that the tests are about.
func payloadOf(data []byte, link layers.LinkType) string {
	p := gopacket.NewPacket(data, link, gopacket.NoCopy)
	var flow, what string
	var body []byte
	more := false
	switch ip := p.NetworkLayer().(type) {
	case *layers.IPv4:
		flow, body = ip.NetworkFlow().String(), ip.Payload
		more = ip.FragOffset > 0
		if more {
			what = fmt.Sprintf("fragment %d", ip.FragOffset)
		}
	case *layers.IPv6:
		flow, body = ip.NetworkFlow().String(), ip.Payload
		if f, ok := p.Layer(layers.LayerTypeIPv6Fragment).(*layers.IPv6Fragment); ok {
			if body = f.Payload; f.FragmentOffset > 0 {
				more, what = true, fmt.Sprintf("fragment %d", f.FragmentOffset)
			}
		}
	default:
		return ""
	}
	if !more {
		switch l4 := p.TransportLayer().(type) {
		case *layers.TCP:
			what, body = fmt.Sprintf("tcp %v %d", l4.TransportFlow(), l4.Seq), l4.Payload
		case *layers.UDP:
			what, body = fmt.Sprintf("udp %v", l4.TransportFlow()), l4.Payload
		default:
			if icmp, ok := p.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4); ok {
				what, body = fmt.Sprintf("icmp %v %d", icmp.TypeCode, icmp.Seq), icmp.Payload
			} else if len(body) > 8 && p.Layer(layers.LayerTypeICMPv6Echo) != nil {
				what, body = "icmpv6", body[8:]
			} else if !strings.Contains(what, "fragment") && p.Layer(gopacket.LayerTypeFragment) != nil && len(body) > 8 {
				what, body = "first fragment", body[8:]
			} else {
				return ""
			}
		}
	}
	if len(body) == 0 {
		return ""
	}
	return flow + " " + what + " " + hex.EncodeToString(body[:min(len(body), snapLen)])
}

// place is a port of the lab.
type place struct{ node, port string }

func (p place) String() string { return p.node + "/" + p.port }

// payloadCase is one way to attach.
type payloadCase struct {
	attach  []string // arguments
	nodes   []string // that are attached; none: all
	at      []place  // where payload is captured
	without []place  // where it is not
}

// TestPayload: what a capture has of payload at a port is what tcpdump sees at that port, of every packet: IPv4 and
// IPv6, trains and fragments. Ports that were not chosen have none.
func TestPayload(t *testing.T) {
	h1, r1, r1out, h2 := place{"h1", "eth0"}, place{"r1", "eth0"}, place{"r1", "eth1"}, place{"h2", "eth0"}
	cases := map[string]payloadCase{
		"clsact": {attach: []string{"--hook", "clsact"}, at: []place{h1, r1, h2}, without: []place{r1out}},
		"header": {attach: []string{"--hook", "clsact", "--carry", "header"}, at: []place{h1}, without: []place{r1, r1out, h2}},
	}
	if hook.Probe().TCX {
		cases["tcx"] = payloadCase{at: []place{h1, r1, h2}, without: []place{r1out}}
		cases["edge"] = payloadCase{nodes: []string{"h1", "r1"}, at: []place{h1, r1out}, without: []place{r1}}
		cases["header"] = payloadCase{attach: []string{"--carry", "header"}, at: []place{h1, r1out, h2}, without: []place{r1}}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { testPayload(t, &c) })
	}
}

func testPayload(t *testing.T, c *payloadCase) {
	need.Programs(t, "tcpdump")
	w := clitest.NewWorldOf(t, "chain", map[string]string{"N": "1", "IPV6": "1"})
	w.Radar(kit.ExitOK, slices.Concat([]string{"attach", "-d"}, c.attach, attachArgs(w, c.nodes))...)
	w.Python("h2", payloadServer)
	theirs := make(map[place]*exec.Cmd)
	files := make(map[place]string)
	var chosen []string
	for _, p := range c.at {
		files[p] = filepath.Join(t.TempDir(), "tcpdump.pcap")
		theirs[p] = w.Lab.Command(w.Context(), p.node, "tcpdump", "-i", p.port, "-U", "-B", "16384", "-Z", "root", "-w", files[p])
		clitest.Await(t, theirs[p], "listening on")
		chosen = append(chosen, p.String())
	}
	file := filepath.Join(t.TempDir(), "lab.pcapng")
	capture := exec.Command(background.SelfPath, "capture", "-w", file, "--snaplen", fmt.Sprint(snapLen), "--payload-at", strings.Join(chosen, ","))
	clitest.Await(t, capture, "capturing domain")
	w.In("h1", "python3", "-c", payloadClient, "10.0.2.2", "2001:db8:0:2::2")
	w.In("h1", "ping", "-q", "-c", "3", "-i", "0.02", "10.0.2.2")
	w.In("h1", "ping", "-q", "-c", "3", "-i", "0.02", "2001:db8:0:2::2")
	w.Settled(w.Status().Totals.Measured)
	clitest.Interrupt(t, capture)
	said, err := os.ReadFile(capture.Stderr.(*os.File).Name())
	if err != nil || !strings.Contains(string(said), "missing in 0\n") || strings.Contains(string(said), "full") {
		t.Errorf("said %q, %v", said, err)
	}
	t.Logf("%s", said)
	for _, p := range c.at {
		got := payloads(t, file, func(nic string) bool { return nic == p.String() })
		var want []string
		nstest.WaitFor(t, "tcpdump to have what it saw", func() bool {
			want = payloads(t, files[p], func(string) bool { return true })
			return len(want) >= len(got)
		})
		clitest.Interrupt(t, theirs[p])
		if len(want) < 60 {
			t.Errorf("%v: tcpdump saw %d packets only", p, len(want))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-tcpdump +radar):\n%s", p, diff)
		}
	}
	for _, p := range c.without {
		if got := payloads(t, file, func(nic string) bool { return nic == p.String() }); len(got) > 0 {
			t.Errorf("%v was not chosen, and has payload of %d packets", p, len(got))
		}
	}
}

// attachArgs are those of attach for some machines; none: for all.
func attachArgs(w *clitest.World, nodes []string) (args []string) {
	if len(nodes) == 0 {
		return w.Lab.AttachArgs()
	}
	for i, m := range w.Lab.Machines {
		if slices.Contains(nodes, m.Name) {
			args = append(args, w.Lab.AttachArgs()[i])
		}
	}
	return args
}
