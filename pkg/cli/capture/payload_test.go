// SPDX-License-Identifier: Apache-2.0

package capture_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/vnet/domain"
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
	nightly bool
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
		"clsact": {nightly: hook.Probe().TCX, attach: []string{"--hook", "clsact"}, at: []place{h1, r1, h2}, without: []place{r1out}},
		"header": {nightly: true, attach: []string{"--hook", "clsact", "--carry", "header"}, at: []place{h1}, without: []place{r1, r1out, h2}},
	}
	if hook.Probe().TCX {
		cases["tcx"] = payloadCase{at: []place{h1, r1, h2}, without: []place{r1out}}
		cases["edge"] = payloadCase{nodes: []string{"h1", "r1"}, at: []place{h1, r1out}, without: []place{r1}}
		cases["header"] = payloadCase{nightly: true, attach: []string{"--carry", "header"}, at: []place{h1, r1out, h2}, without: []place{r1}}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.nightly {
				need.Nightly(t)
			}
			testPayload(t, &c)
		})
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

// standing are the programs at h1's port that capture payload, the filters, and the program of the domain to which they
// jump.
func standing(t *testing.T, w *clitest.World) (list []string) {
	t.Helper()
	ns, _, err := host.OpenNetns(w.Lab.NetNSPath("h1"))
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	err = host.InNetns(ns, func() error {
		filters, err := hook.Filters(func(name string) bool { return strings.HasPrefix(name, "radar-payload:"+w.Domain+":") })
		for _, f := range filters {
			list = append(list, f.Name)
		}
		index, failed := net.InterfaceByName("eth0")
		if err = errors.Join(err, failed); err != nil || !hook.Probe().TCX {
			return err
		}
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			there, failed := link.QueryPrograms(link.QueryOptions{Target: index.Index, Attach: at})
			if failed != nil {
				return failed
			}
			for _, p := range there.Programs {
				if name, _ := programOf(p.ID); strings.HasPrefix(name, "payload_") {
					list = append(list, name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pins, _ := hook.Pins(domain.PinDir(w.Domain), "") // none: the domain is gone, and its maps with it
	maps := hook.PinnedMaps(pins)
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		name, uses := programOf(id)
		if name == sharedProgram && slices.ContainsFunc(uses, func(id ebpf.MapID) bool { return slices.Contains(maps, id) }) {
			list = append(list, name)
		}
	}
	return list
}

// sharedProgram is the program to which the stubs jump.
const sharedProgram = "radar_payload"

// programOf is a program's name, and the maps that it uses; nothing if it has gone.
func programOf(id ebpf.ProgramID) (name string, maps []ebpf.MapID) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return "", nil
	}
	defer p.Close()
	if info, err := p.Info(); err == nil {
		name = info.Name
		maps, _ = info.MapIDs()
	}
	return name, maps
}

// TestPayloadEnds: nothing of a capture stays when it ends, also when it is killed. What a filter leaves of one that was
// killed does nothing, and goes with the next capture, or with the domain. Two captures go on beside each other.
func TestPayloadEnds(t *testing.T) {
	for _, by := range ways() {
		t.Run(by, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.Radar(kit.ExitOK, append([]string{"attach", "-d", "--hook", by}, w.Lab.AttachArgs()...)...)
			files := []string{filepath.Join(t.TempDir(), "a.pcapng"), filepath.Join(t.TempDir(), "b.pcapng")}
			var both []*exec.Cmd
			for _, file := range files {
				both = append(both, capturePayload(t, file))
			}
			if got := standing(t, w); len(got) != 6 {
				t.Errorf("two captures have %v, want two stubs and a program each", got)
			}
			w.Ping(3)
			w.Settled(w.Status().Totals.Measured)
			for i, cmd := range both {
				clitest.Interrupt(t, cmd)
				if got := payloads(t, files[i], func(nic string) bool { return nic == "h1/eth0" }); len(got) != 6 {
					t.Errorf("of two captures one has payload of %d packets, want 6: %v", len(got), got)
				}
			}
			awaitNone(t, w)
			killed := capturePayload(t, files[0])
			_ = killed.Process.Kill()
			_ = killed.Wait()
			if by == hook.ByTCX {
				awaitNone(t, w)
			} else { // the stubs alone
				nstest.WaitFor(t, "the kernel to free the program", func() bool { return !slices.Contains(standing(t, w), sharedProgram) })
				if got := standing(t, w); len(got) != 2 {
					t.Errorf("two stubs stay, there are %v", got)
				}
			}
			w.Ping(1)
			clitest.Interrupt(t, capturePayload(t, files[0]))
			awaitNone(t, w)
			killed = capturePayload(t, files[0])
			_ = killed.Process.Kill()
			_ = killed.Wait()
			w.Radar(kit.ExitOK, "detach", "--no-drain")
			awaitNone(t, w)
			w.NothingLeft()
			if out := w.In("h1", "tc", "qdisc", "show", "dev", "eth0"); strings.Contains(out, "clsact") {
				t.Errorf("a qdisc is left: %s", out)
			}
		})
	}
}

// capturePayload starts a capture at h1's port.
func capturePayload(t *testing.T, file string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(background.SelfPath, "capture", "-w", file, "--snaplen", "32", "--payload-at", "h1/eth0")
	clitest.Await(t, cmd, "capturing domain")
	return cmd
}

func awaitNone(t *testing.T, w *clitest.World) {
	t.Helper()
	nstest.WaitFor(t, "the programs that capture payload to be gone", func() bool { return len(standing(t, w)) == 0 })
}

// ways are those of attaching that the kernel has.
func ways() []string {
	if hook.Probe().TCX {
		return []string{hook.ByTCX, hook.ByClsact}
	}
	return []string{hook.ByClsact}
}

// TestPayloadRefused: what cannot be is refused, with what is wrong.
func TestPayloadRefused(t *testing.T) {
	for args, want := range map[string]string{
		"capture --snaplen 100":                       "at which ports? --payload-at NODE/PORT",
		"capture --payload-at h1":                     "--snaplen N",
		"capture --snaplen 20000 --at h1":             "--snaplen 20000: use 1 to 16384",
		"capture --snaplen -1 --at h1":                "--snaplen -1: use 1 to 16384",
		"packets --snaplen 100 --payload-at h1":       "only with -f -w",
		"packets -w x --snaplen 100 --payload-at h1":  "only with -f:",
		"packets -r run1 -w x --snaplen 9 --at h1":    "recordings have no payload",
		"packets -f -r run1 -w x --snaplen 9 --at h1": "recordings have no payload",
	} {
		stdout, stderr, code := clitest.Radar(t, strings.Fields(args)...)
		if code != kit.ExitUsage || !strings.Contains(stderr, want) {
			t.Errorf("radar %s: code %d, %q, want %q", args, code, stdout+stderr, want)
		}
	}
}
