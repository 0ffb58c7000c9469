// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/record"
)

// watched is the expression of TestWatch.
const watched = "udp port 9999"

// TestWatch: of mixed traffic through attached routers exactly those packets are
// measured that tcpdump with the same expression sees entering. The others are
// counted, and nobody outside can tell the one from the other.
func TestWatch(t *testing.T) {
	for attempt := 1; ; attempt++ {
		report, err := runWatch(t)
		if errors.Is(err, errIncomplete) && attempt < attempts {
			t.Logf("attempt %d does not count: %v", attempt, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		keepReport(t, report)
		if !report.OK() {
			t.Error("radar and the captures disagree, see the table")
		}
		return
	}
}

func runWatch(t *testing.T) (*oracle.Report, error) {
	n := startNetwork(lifetime(t), t, "chain")
	n.sink(t, "h2", portProbe, portNft)
	c := n.capture(t, "")
	c.listenRaw(t, "h2", 17)
	// h1 is outside, and the only one that sends what matches: it enters the domain
	// as it is on h1's wire.
	entering := n.dumpPort(t, "h1")
	attached := routers(n.nodes())
	rad := n.attach(t, attached, "--timeout", packetTimeout, "--watch", watched)
	sent := watchTraffic(t, n)
	n.carried(t)
	v := rad.verdict(t)
	want := make(map[string]int)
	if err := errors.Join(c.stop(t), entering.stop()); err != nil {
		return nil, err
	}
	countPackets(t, entering.matching(t, n), want)
	truth, err := c.load(sent)
	if err != nil {
		return nil, err
	}
	wantMeasured(t, v, want, truth.Packets())
	d := oracle.NewDomain(attached...)
	report := &oracle.Report{Title: fmt.Sprintf("chain, routers attached with --watch %q: %d packets", watched, truth.Packets())}
	report.Add(truth.CheckCaptures(d), truth.CheckOutside(d), truth.CheckInside(d), truth.CheckSockets(d))
	report.Add(truth.Compare(d, nil, v.records).Rows(v.notMeasured)...)
	return report, nil
}

// dumpPort captures at a host's port.
func (n *network) dumpPort(t *testing.T, node string) *tcpdump {
	t.Helper()
	d := &tcpdump{node: node, file: filepath.Join(t.TempDir(), node+".pcap")}
	n.startDump(t, d, []string{"tcpdump", "-i", "eth0", "-B", "65536", "-n", "-U", "-s", "0", "-Z", "root", "-w", d.file})
	if err := d.ready(); err != nil {
		t.Fatalf("tcpdump in %s: %v\n%s", node, err, d.log())
	}
	return d
}

// matching is a file of what the host has sent that matches, by tcpdump.
func (d *tcpdump) matching(t *testing.T, n *network) string {
	t.Helper()
	out, err := n.lab.Command(n.ctx, d.node, "ip", "-o", "link", "show", "eth0").Output()
	_, mac, found := strings.Cut(string(out), "link/ether ")
	if err != nil || !found {
		t.Fatalf("ip link: %v\n%s", err, out)
	}
	file := d.file + ".matching"
	expression := fmt.Sprintf("(%s) and ether src %s", watched, strings.Fields(mac)[0])
	if out, err := exec.CommandContext(n.ctx, "tcpdump", "-r", d.file, "-Z", "root", "-w", file, expression).CombinedOutput(); err != nil {
		t.Fatalf("tcpdump -r: %v\n%s", err, out)
	}
	return file
}

// watchTraffic sends some of what matches, fragments of which only the first does,
// and more of what does not.
func watchTraffic(t *testing.T, n *network) []*sentLog {
	t.Helper()
	var sent []*sentLog
	for _, f := range []rawFlow{
		{sport: 6000, dport: portNft}, {sport: 6001, dport: portProbe},
		{sport: 6002, dport: portNft, options: true, sizes: []int{100, 700, 1480}},
		{sport: 6003, dport: portNft, mayFragment: true},
		{sport: 6004, proto: otherProtocol},
	} {
		f.from, f.to, f.count, f.gap = "h1", "h2", 300, 200*time.Microsecond
		if f.sizes == nil {
			f.sizes = mixedSizes
		}
		sent = append(sent, n.sendRaw(t, f))
	}
	n.sendUDP(t, udpFlow{
		from: "h1", to: "h2", sport: 6501, dport: portNft, count: 50, fragments: true,
		sizes: []int{3000, 1473, 200}, gap: time.Millisecond,
	})
	n.ping(t, "h1", "h2", 50, 56)
	n.iperf(t, "h1", "h2", "-n", "500K")
	return sent
}

// wantMeasured compares the records with what entered, by header, one for one, and
// the counter with the rest of all packets.
func wantMeasured(t *testing.T, v verdict, want map[string]int, all int) {
	t.Helper()
	got := make(map[string]int)
	for _, r := range v.records {
		got[headerOfRecord(t, &r)]++
	}
	if len(want) < 900 || !maps.Equal(got, want) {
		t.Errorf("%d packets measured, tcpdump saw %d; of those with other numbers: %v", len(v.records), len(want), firstDifference(got, want))
	}
	if matching := len(v.records); v.notMeasured != all-matching {
		t.Errorf("%d packets counted as not measured, want %d (%d in all, %d match)", v.notMeasured, all-matching, all, matching)
	}
}

func firstDifference(got, want map[string]int) string {
	for _, m := range []map[string]int{got, want} {
		for k := range m {
			if got[k] != want[k] {
				return fmt.Sprintf("%s: %d records, %d packets", k, got[k], want[k])
			}
		}
	}
	return "none"
}

// headerOfRecord is what headerOfPacket says of the packet.
func headerOfRecord(t *testing.T, r *record.Record) string {
	t.Helper()
	off := 0
	if r.FragOff != nil {
		off = *r.FragOff
	}
	if r.Proto != "udp" || r.Sport == nil || r.Dport == nil {
		t.Errorf("record %s is of %s without ports", r.ID, r.Proto)
		return r.ID
	}
	return fmt.Sprintf("%s:%d > %s:%d id %d ttl %d off %d len %d", r.Src, *r.Sport, r.Dst, *r.Dport, r.IPID, r.TTL, off, r.Len)
}

func headerOfPacket(ip []byte) string {
	l4 := ip[int(ip[0]&15)*4:]
	be := binary.BigEndian.Uint16
	return fmt.Sprintf("%s:%d > %s:%d id %d ttl %d off %d len %d",
		netip.AddrFrom4([4]byte(ip[12:16])), be(l4), netip.AddrFrom4([4]byte(ip[16:20])), be(l4[2:]),
		be(ip[4:]), ip[8], int(be(ip[6:])&0x1fff)*8, be(ip[2:]))
}

// countPackets adds the headers in a capture of Ethernet to counts.
func countPackets(t *testing.T, file string, counts map[string]int) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := pcapgo.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if r.LinkType() != layers.LinkTypeEthernet {
		t.Fatalf("%s has link type %v", file, r.LinkType())
	}
	for {
		data, _, err := r.ReadPacketData()
		if err != nil {
			return
		}
		counts[headerOfPacket(data[14:])]++
	}
}
