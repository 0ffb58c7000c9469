// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/loader"
	numbers "github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	description "github.com/vnetradar/radar/pkg/vnet/domain"
)

// expressions are asked of every packet of packets.py.
var expressions = []string{
	"udp port 5001",
	"tcp",
	"not tcp",
	"host 10.0.4.2 and not icmp",
	"src net 10.0.0.0/16 and (tcp dst port 443 or sctp)",
	"portrange 5000-5002",
	"icmp[icmptype] = icmp-echo",
	"icmp[4:2] > 0",
	"tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
	"tcp[((tcp[12:1] & 0xf0) >> 2):1] >= 0",
	"udp[8:2] = 0x0007",
	"ip[6:2] & 0x1fff != 0",
	"ip[0] & 0xf != 5",
	"ip[8] < 64 or ip[1] & 0xfc != 0",
	"ip[8] * 2 + 1 > ip[9] << 2 and -ip[8] != 3",
	"len > 100",
	"greater 60 and less 120",
	"ip proto 47",
	"ip6 or udp",
	"ip[200] = 0",
	"ip",
}

// watch puts the expression into the programs, as the loader does.
func (d *domain) watch(spec *ebpf.CollectionSpec, text string) {
	d.Helper()
	e, err := filter.Compile(text)
	if err != nil {
		d.Fatal(err)
	}
	if err := loader.SetWatch(spec, e.Instructions()); err != nil {
		d.Fatalf("%q: %v", text, err)
	}
	if err := spec.Variables[bpfobj.TcVarCfgWatch].Set(uint8(1)); err != nil {
		d.Fatal(err)
	}
}

// sendable are the packets that can be sent through the programs, by name, and are as
// long as they say (as BIG TCP is not).
func sendable(t testing.TB) (names []string) {
	t.Helper()
	_, all := fixtures()
	for _, name := range all {
		if data := packet(t, name); !strings.HasPrefix(name, "raw-") && !strings.HasPrefix(name, "bad-length") && !strings.HasPrefix(name, "big-") && ipAt(data) > 0 && runnable(data) {
			names = append(names, name)
		}
	}
	return names
}

// fixtureFrame is the packet of that name, as a train if it is one.
func fixtureFrame(t testing.TB, name string) frame {
	t.Helper()
	if packets, _ := fixtures(); packets[name+".0"] != nil {
		return loadTrain(t, name).whole
	}
	return frame{data: packet(t, name)}
}

// asked sends a frame and says whether the expression was asked, and what it said.
func (d *domain) asked(f frame) (matches, asked bool) {
	d.Helper()
	before := d.counters()
	d.send(f)
	after := d.counters()
	moved := func(c bpfobj.TcRdrCounter) bool { return after[c] != before[c] }
	matches = moved(cMarked) || moved(cKeyInFlight)
	return matches, matches || moved(cWatch)
}

// TestWatch: tcpdump, the compiled expressions and the numbers agree about every
// packet.
func TestWatch(t *testing.T) {
	needExpressions(t)
	names := sendable(t)
	file := writeCapture(t, names)
	d := newDomain(t, config{})
	measured := make(map[string]*numbers.Packet)
	for _, name := range names {
		measured[name] = d.packetOf(frame{data: packet(t, name)})
	}
	for _, text := range expressions {
		t.Run(text, func(t *testing.T) {
			want := tcpdumpSelects(t, file, text, names)
			f := newFunction(t, text)
			e, err := filter.Compile(text)
			if err != nil {
				t.Fatal(err)
			}
			held := e.CheckRecords() == nil
			for _, name := range names {
				data := packet(t, name)
				at := ipAt(data)
				if got := f.matches(data, at, len(unpadded(data))); got != want[name] {
					t.Errorf("%s: matches %v, tcpdump selects it: %v", name, got, want[name])
				}
				p := measured[name]
				if hasExtensions(data, at) {
					continue // tcpdump does not look behind them, radar does
				}
				if !held || p == nil || p.IsICMP() && !p.IsEcho() && strings.Contains(text, "icmp[4") {
					continue
				}
				if got := e.Match(p); got != want[name] {
					t.Errorf("%s: the numbers match: %v, tcpdump selects the packet: %v", name, got, want[name])
				}
			}
		})
	}
}

// TestWatchWhole: in the whole of the programs an expression decides about what is
// measured, trains too.
func TestWatchWhole(t *testing.T) {
	needExpressions(t)
	names := sendable(t)
	file := writeCapture(t, names)
	for _, text := range []string{"tcp dst port 443 or icmp[4:2] > 0", "ip[0] & 0xf != 5 or udp"} {
		d := newDomain(t, config{watch: text})
		want := tcpdumpSelects(t, file, text, names)
		n := make(map[bool]int)
		for _, name := range names {
			got, asked := d.asked(fixtureFrame(t, name))
			if !asked {
				continue
			}
			n[got]++
			if got != want[name] {
				t.Errorf("%q, %s: measured %v, tcpdump selects it: %v", text, name, got, want[name])
			}
		}
		if n[true] < 10 || n[false] < 10 {
			t.Errorf("%q: %d packets measured, %d not", text, n[true], n[false])
		}
	}
}

// hasExtensions says whether extension headers follow the header at `at`.
func hasExtensions(data []byte, at int) bool {
	return headerAt(data, at).v6() && readChain(data[at:]).size != 40
}

// packetOf sends a frame and returns what was measured of it, nil if it was not.
func (d *domain) packetOf(f frame) (measured *numbers.Packet) {
	d.Helper()
	d.reset()
	d.send(f)
	maps, err := backpack.FromMaps(d.Maps[bpfobj.TcMapRing], d.Maps[bpfobj.TcMapControl], d.Maps[bpfobj.TcMapAlloc])
	if err != nil {
		d.Fatal(err)
	}
	defer maps.Close()
	dec := backpack.NewDecoder(&description.Domain{
		Options: description.Options{Slots: d.layout.Slots, Timeout: usualTimeout},
	}, nil)
	backpack.ScanPackets(maps, dec, backpack.ScanOptions{}, func(p *numbers.Packet) {
		if measured == nil {
			first := *p
			first.Hops, first.Drops = nil, nil
			measured = &first
		}
	})
	return measured
}

// unpadded is the IP packet in a frame, without what fills the frame up.
func unpadded(data []byte) []byte {
	at := ipAt(data)
	return data[at:min(len(data), at+headerAt(data, at).length())]
}

// writeCapture writes the packets to a file, from the IP header on. The time in
// seconds is the packet's number.
func writeCapture(t *testing.T, names []string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "packets.pcap")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := pcapgo.NewWriter(out)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeRaw); err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		data := unpadded(packet(t, name))
		info := gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(data), Length: len(data)}
		if err := w.WritePacket(info, data); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// tcpdumpSelects returns the packets that tcpdump selects from the file.
func tcpdumpSelects(t *testing.T, file, text string, names []string) map[string]bool {
	t.Helper()
	need.Programs(t, "tcpdump")
	cmd := exec.Command("tcpdump", "-r", file, "-w", "-", text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tcpdump: %v: %s", err, &stderr)
	}
	r, err := pcapgo.NewReader(bytes.NewReader(out))
	if err != nil {
		t.Fatal(err)
	}
	selected := make(map[string]bool)
	for {
		_, info, err := r.ReadPacketData()
		if err != nil {
			break
		}
		selected[names[info.Timestamp.Unix()]] = true
	}
	return selected
}

// TestWatchTrainLength: the length of a train is that of all its segments, in the
// programs as in the record.
func TestWatchTrainLength(t *testing.T) {
	needExpressions(t)
	const train = "train-tcp"
	f := fixtureFrame(t, train)
	if f.segs < 2 {
		t.Fatalf("%s has %d segments", train, f.segs)
	}
	sum := 0
	for _, s := range loadTrain(t, train).segments {
		sum += len(s) - etherHeader
	}
	if r := newDomain(t, config{}).packetOf(f); r == nil || r.Len != uint32(sum) {
		t.Fatalf("%+v, want a length of %d", r, sum)
	}
	for _, c := range []struct {
		text string
		want bool
	}{{fmt.Sprintf("len = %d", sum), true}, {fmt.Sprintf("greater %d", sum+1), false}} {
		if got, asked := newDomain(t, config{watch: c.text}).asked(f); !asked || got != c.want {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
}

// TestWatchOnlySources: transit and sink know their packets without asking, and what
// is not wanted passes untouched.
func TestWatchOnlySources(t *testing.T) {
	needExpressions(t)
	d := newDomain(t, config{watch: "udp port 5001 and ip[8] = 64"})
	orig, other := packet(t, "udp-64"), packet(t, "tcp-data")
	w := d.send(frame{data: orig})
	d.wantMarked(w.data, orig)
	_, w = d.transit(w, 1) // its TTL is 62 now
	same(t, "at h2", d.deliver(w, 0).data, lowered(t, orig, 2))
	d.counted(tally{cSeen: 1, cMarked: 1})
	same(t, "not wanted, from a node", d.send(frame{data: other, mark: 5}).data, other)
	same(t, "not wanted, at an edge", d.ingress(r1Edge, frame{data: other}).data, other)
	d.counted(tally{cSeen: 2, cWatch: 2})
}

// TestWatchLarge: long lists of hosts load.
func TestWatchLarge(t *testing.T) {
	needExpressions(t)
	list := make([]string, 2000)
	for i := range list {
		list[i] = fmt.Sprintf("10.%d.%d.%d", 1+i%3, i>>8, i&255)
	}
	list[len(list)-1] = "10.0.4.2"
	d := newDomain(t, config{watch: "host " + strings.Join(list, " or ")})
	info, err := d.Programs[bpfobj.TcProgRadarEgress].Info()
	if err != nil {
		t.Fatal(err)
	}
	insns, _ := info.Instructions()
	verified, _ := info.VerifiedInstructions()
	t.Logf("%d hosts: %d instructions, %d verified", len(list), len(insns), verified)
	if got, asked := d.asked(frame{data: packet(t, "udp-64")}); !got || !asked {
		t.Error("the last host's packet is not measured")
	}
}
