// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
)

// flow is UDP traffic whose every header bit is ours: IDs of our choice, TTLs
// inside and outside the bands that radar writes, any DSCP and ECN, DF set and
// clear. What arrives must differ by what routers and NAT did, and by nothing else.
type flow struct {
	name   string
	number uint8 // in the payload
	from   *place
	to     netip.AddrPort // as the sender addresses it
	sport  int
	sent   map[key]packet // filled by send

	at      string         // observer that must see it
	routers uint8          // TTL decrements until there
	src     netip.AddrPort // ends as the observer sees them; not valid: as sent
	dst     netip.AddrPort

	path   []string     // nodes in radar's record
	state  record.State // of the record
	before uint8        // TTL decrements before radar's source saw it
	recDst netip.AddrPort
	recSrc netip.AddrPort // ends as radar's source saw them; not valid: as sent
	// linkNAT says that addresses change on a link. Packets with DF clear are known
	// by their addresses, so radar loses sight of them there.
	linkNAT bool
}

func (f *flow) source() netip.AddrPort { return netip.AddrPortFrom(f.from.addr, uint16(f.sport)) }

// orElse is a, or b if there is no a.
func orElse(a, b netip.AddrPort) netip.AddrPort {
	if a.IsValid() {
		return a
	}
	return b
}

// ttls lie inside radar's default bands (65-96, 129-224), at their borders and
// outside of them.
var ttls = []uint8{64, 80, 255, 65, 96, 97, 128, 129, 150, 224, 225, 20, 72, 200}

// sizes of payloads: from the smallest that holds a key to a full frame.
var sizes = []int{payloadHead, 36, 64, 128, 548, 1000, 1472}

const (
	flowCount = 140
	flowGap   = 400 * time.Microsecond
)

// packet number seq of the flow, complete with checksums.
func (f *flow) packet(rnd *rand.Rand, seq uint32) (packet, error) {
	src, dst := f.from.addr, f.to.Addr()
	ip := &layers.IPv4{
		Version: 4, TTL: ttls[int(seq)%len(ttls)], TOS: uint8(rnd.Uint32()),
		Id:       uint16(seq*40503) + uint16(f.number)*257, // no ID comes twice within 2^16
		Protocol: layers.IPProtocolUDP, SrcIP: src.AsSlice(), DstIP: dst.AsSlice(),
	}
	if seq%3 != 0 {
		ip.Flags = layers.IPv4DontFragment
	}
	if ip.Id == 0 { // the kernel would choose one
		ip.Id = 1
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(f.sport), DstPort: layers.UDPPort(f.to.Port())}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	b := make([]byte, sizes[int(seq)%len(sizes)])
	binary.BigEndian.PutUint32(b, seq)
	b[payloadFlow] = f.number
	copy(b[payloadFlow+1:], payloadMark)
	for i := payloadHead; i < len(b); i++ {
		b[i] = byte(rnd.Uint32())
	}
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, ip, udp, gopacket.Payload(b)); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// send sends the flow from its place.
func (f *flow) send(t *testing.T) {
	t.Helper()
	var fd int
	f.from.within(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		return err
	})
	defer unix.Close(fd)
	f.sent = map[key]packet{}
	rnd := rand.New(rand.NewPCG(uint64(f.sport), uint64(f.number)))
	for seq := range uint32(flowCount) {
		b, err := f.packet(rnd, seq)
		if err != nil {
			t.Fatalf("%s: build packet: %v", f.name, err)
		}
		f.sent[key{f.number, seq}] = b
		if err := unix.Sendto(fd, b, 0, &unix.SockaddrInet4{Addr: f.to.Addr().As4()}); err != nil {
			t.Fatalf("%s: send from %s: %v", f.name, f.from.name, err)
		}
		time.Sleep(flowGap)
	}
}

// checkSeen holds what an observer saw of the flow to what was sent.
func (f *flow) checkSeen(t *testing.T, seen []packet) {
	t.Helper()
	var bad, good int
	have := map[key]bool{}
	for _, p := range seen {
		k, ok := p.key()
		if !ok || k.flow != f.number {
			continue
		}
		if err := f.compare(k, p); err != nil {
			if bad++; bad <= 3 {
				t.Errorf("%s, packet %d at %s: %v", f.name, k.seq, f.at, err)
			}
			continue
		}
		if have[k] {
			t.Errorf("%s, packet %d came twice to %s", f.name, k.seq, f.at)
		}
		have[k] = true
		good++
	}
	if good != len(f.sent) {
		t.Errorf("%s: %s saw %d of %d packets unharmed, %d harmed", f.name, f.at, good, len(f.sent), bad)
	}
}

// compare says how a packet differs from what it should be without radar.
func (f *flow) compare(k key, p packet) error {
	want, ok := f.sent[k]
	if !ok {
		return errors.New("was never sent")
	}
	if p.ttl() != want.ttl()-f.routers {
		return fmt.Errorf("TTL is %d, sent as %d over %d routers", p.ttl(), want.ttl(), f.routers)
	}
	if src, dst := orElse(f.src, f.source()), orElse(f.dst, f.to); p.from() != src || p.to() != dst {
		return fmt.Errorf("goes from %v to %v, should go from %v to %v", p.from(), p.to(), src, dst)
	}
	if err := p.checkSums(true); err != nil {
		return err
	}
	// The rest byte for byte: all but TTL, IP checksum, addresses, ports, UDP checksum.
	for _, r := range [][2]int{{0, 8}, {9, 10}, {24, 26}, {28, len(want)}} {
		if len(p) != len(want) || !bytes.Equal(p[r[0]:r[1]], want[r[0]:r[1]]) {
			return fmt.Errorf("is not what was sent\n got % x\nsent % x", p[:28], want[:28])
		}
	}
	return nil
}

// checkRecords compares radar's records with what was sent: one for every packet, with
// its header as the source saw it, the right path and the right end.
func (f *flow) checkRecords(t *testing.T, all []record.Record) {
	t.Helper()
	src, dst := orElse(f.recSrc, f.source()), orElse(f.recDst, f.to)
	byID := map[int][]record.Record{}
	for _, r := range all {
		if r.Sport != nil && r.Dport != nil && r.Proto == "udp" && r.Src == src.Addr().String() && r.Dst == dst.Addr().String() &&
			*r.Sport == int(src.Port()) && *r.Dport == int(dst.Port()) {
			byID[r.IPID] = append(byID[r.IPID], r)
		}
	}
	var bad int
	for k, p := range f.sent {
		if err := f.compareRecord(p, byID[int(p.id())]); err != nil {
			if bad++; bad <= 3 {
				t.Errorf("%s, packet %d: %v", f.name, k.seq, err)
			}
		}
	}
	if bad > 0 {
		t.Errorf("%s: records of %d of %d packets are wrong or missing", f.name, bad, len(f.sent))
	}
}

func (f *flow) compareRecord(p packet, list []record.Record) error {
	if len(list) != 1 {
		return fmt.Errorf("%d records", len(list))
	}
	r := list[0]
	if r.TTL != int(p.ttl()-f.before) || r.DSCP != int(p.tos()>>2) || r.ECN != int(p.tos()&3) || r.Len != len(p) {
		return fmt.Errorf("record says TTL %d, DSCP %d, ECN %d, %d bytes; sent: % x", r.TTL, r.DSCP, r.ECN, r.Len, p[:20])
	}
	state, want := f.state, f.path
	if f.linkNAT && !p.dontFragment() {
		state, want = record.Expired, f.path[:1]
	}
	if path := nodesOf(r); r.State != state || !slices.Equal(path, want) {
		return fmt.Errorf("record says %s by %v, should be %s by %v", r.State, path, state, want)
	}
	return nil
}
