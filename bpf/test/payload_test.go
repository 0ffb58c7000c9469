// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

// payloadProgram is the program that captures payload, with the maps of a domain.
type payloadProgram struct {
	*domain
	*ebpf.Collection
	reader *ringbuf.Reader
}

// Where it can stand at a port.
const (
	behindIn = 0
	goesOut  = uint32(bpfobj.PayloadRdrPayloadWhereRDR_PAYLOAD_OUT)
	before   = uint32(bpfobj.PayloadRdrPayloadWhereRDR_PAYLOAD_BEFORE)
)

// newPayload loads it. ringBytes are those of its ring buffer, 0: many.
func newPayload(d *domain, c config, snapLen uint32, ringBytes int) *payloadProgram {
	d.Helper()
	spec, err := bpfobj.LoadPayload()
	if err != nil {
		d.Fatal(err)
	}
	d.configure(spec, c)
	if err := spec.Variables[bpfobj.PayloadVarCfgSnaplen].Set(snapLen); err != nil {
		d.Fatal(err)
	}
	if ringBytes > 0 {
		spec.Maps[bpfobj.PayloadMapPayloads].MaxEntries = uint32(ringBytes)
	}
	shared := make(map[string]*ebpf.Map)
	for name := range spec.Maps {
		if !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "payload") {
			shared[name] = d.Maps[name]
		}
	}
	p := &payloadProgram{domain: d}
	if p.Collection, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared}); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(p.Collection.Close)
	if p.reader, err = ringbuf.NewReader(p.Maps[bpfobj.PayloadMapPayloads]); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { p.reader.Close() })
	p.reader.SetDeadline(time.Unix(1, 0))
	return p
}

// pass lets a frame pass the program. It must not change the frame.
func (p *payloadProgram) pass(where, port uint32, f frame) {
	p.Helper()
	after := p.run(p.Programs[bpfobj.PayloadProgRadarPayload], port|where, f)
	if !bytes.Equal(after.data, f.data) || after.mark != f.mark {
		p.Errorf("the packet was changed: mark %#x, then %#x", f.mark, after.mark)
	}
}

// captured are the entries since the last call, with the bytes behind each.
func (p *payloadProgram) captured() (heads []bpfobj.PayloadRdrPayload, data [][]byte) {
	p.Helper()
	for {
		r, err := p.reader.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return heads, data
		}
		if err != nil {
			p.Fatal(err)
		}
		var head bpfobj.PayloadRdrPayload
		n, err := binary.Decode(r.RawSample, binary.NativeEndian, &head)
		if err != nil {
			p.Fatal(err)
		}
		heads, data = append(heads, head), append(data, r.RawSample[n:n+int(head.Captured)])
	}
}

// counts are what the program has counted, by number.
func (p *payloadProgram) counts() (n [bpfobj.PayloadRdrPayloadCountRDR_PC_MAX]uint64) {
	p.Helper()
	for i := range n {
		var each []uint64
		if err := p.Maps[bpfobj.PayloadMapPayloadCounts].Lookup(uint32(i), &each); err != nil {
			p.Fatal(err)
		}
		for _, v := range each {
			n[i] += v
		}
	}
	return n
}

// headerSize is how long the transport header is that lies before a packet's payload; 0: none that is known.
func headerSize(t testing.TB, data []byte) int {
	proto, l4 := l4Of(data, ipAt(data))
	if _, later := isFragment(t, data); later {
		return 0
	}
	switch proto {
	case 6:
		return int(data[l4+12]>>4) * 4
	case 17, 1, 58:
		return 8
	}
	return 0
}

// TestPayload: of every packet that was sourced, the program has the bytes behind the IP header, and no more of the payload
// than was asked for: behind the domain's program as it leaves and as it comes in, and before it as it leaves at an edge.
func TestPayload(t *testing.T) {
	for _, snapLen := range []uint32{1, 8, 16384} {
		t.Run(fmt.Sprint(snapLen), func(t *testing.T) {
			d := newDomain(t, config{})
			p := newPayload(d, config{}, snapLen, 0)
			for _, name := range append(byBits(), byKey()...) {
				p.testPacket(t, name, int(snapLen))
			}
		})
	}
}

func (p *payloadProgram) testPacket(t *testing.T, name string, snapLen int) {
	t.Helper()
	orig := packet(t, name)
	ip := ipAt(orig)
	hdr := headerSize(t, orig)
	_, l4 := l4Of(orig, ip)
	body := orig[l4 : ip+header(t, orig).length()]
	sent := p.send(frame{data: orig})
	p.pass(goesOut, h1Out, sent)
	came := p.ingress(r1In, p.link(sent, 0))
	p.pass(behindIn, r1In, came)
	p.pass(goesOut|before, r1Edge, p.route(came, r1In))
	heads, data := p.captured()
	if len(body) <= hdr {
		if len(heads) > 0 {
			t.Errorf("%s has no payload, and %d entries", name, len(heads))
		}
		return
	}
	if len(heads) != 3 {
		t.Fatalf("%s: %d entries, want 3; counts %v", name, len(heads), p.counts())
	}
	ports := []uint16{h1Out, r1In, r1Edge}
	for i, h := range heads {
		if h.Pos != heads[0].Pos || h.Port != ports[i] || (h.Out == 1) != (i != 1) || int(h.Hdr) != hdr || int(h.Length) != len(body) {
			t.Errorf("%s: entry %d is %+v; the header has %d bytes, all %d", name, i, h, hdr, len(body))
		}
		if want := body[:min(len(body), hdr+snapLen)]; !bytes.Equal(data[i], want) {
			t.Errorf("%s: entry %d has %x, want %x", name, i, data[i], want)
		}
	}
	if s := p.slot(uint32(heads[0].Pos) & (p.layout.Slots - 1)); s.Pos != heads[0].Pos {
		t.Errorf("%s: position %d, and the slot has %d", name, heads[0].Pos, s.Pos)
	}
}

// TestPayloadOfTrain: of a train the first segment's bytes are taken.
func TestPayloadOfTrain(t *testing.T) {
	d := newDomain(t, config{})
	p := newPayload(d, config{}, 16384, 0)
	for _, name := range []string{"train-tcp", "train-udp", "train-six-tcp", "train-clear"} {
		tr := loadTrain(t, name)
		p.pass(goesOut, h1Out, d.send(tr.whole))
		heads, data := p.captured()
		first := payloadOf(tr.segments[0])
		if len(heads) != 1 || int(heads[0].Length) != int(heads[0].Hdr)+len(first) || !bytes.Equal(data[0][heads[0].Hdr:], first) {
			t.Errorf("%s: entries %+v; want one, of %d bytes behind the header", name, heads, len(first))
		}
	}
}

// TestPayloadCounts: what has no payload is counted by its cause, and what nobody reads is not overwritten.
func TestPayloadCounts(t *testing.T) {
	d := newDomain(t, config{})
	p := newPayload(d, config{}, 1000, 4096)
	const name = "udp-64"
	p.pass(goesOut, h1Out, frame{data: packet(t, name)}) // nobody has measured it
	if got := p.counts(); got != [...]uint64{0, 1, 0, 0} {
		t.Errorf("a packet that is not measured: counts %v", got)
	}
	sent := d.send(frame{data: packet(t, name)})
	n := uint64(0)
	for ; p.counts()[2] == 0 && n < 1000; n++ {
		p.pass(goesOut, h1Out, sent)
	}
	heads, _ := p.captured()
	if got := p.counts(); n < 2 || uint64(len(heads)) != n-1 || got != [...]uint64{n - 1, 1, 1, 0} {
		t.Errorf("%d packets, %d entries, counts %v", n, len(heads), got)
	}
	p.pass(goesOut, h1Out, sent)
	if heads, _ := p.captured(); len(heads) != 1 {
		t.Errorf("%d entries after the ring buffer was read", len(heads))
	}
}

// TestPayloadOfOthers: where a packet looks like one of ours and the domain's program refuses it, no payload is taken for
// ours; and ours have theirs.
func TestPayloadOfOthers(t *testing.T) {
	c := config{carry: "header"}
	d := newDomain(t, c)
	p := newPayload(d, c, 1000, 0)
	taken := func(name string, where, port uint32, f frame, want bool) {
		t.Helper()
		p.pass(where, port, f)
		if heads, _ := p.captured(); (len(heads) == 1) != want {
			t.Errorf("%s: %d entries, want one: %v", name, len(heads), want)
		}
	}
	orig := packet(t, "udp-64")
	w := d.send(frame{data: orig})
	other := bytes.Clone(w.data)
	other[etherHeader+20] ^= 1 // its source port
	fixSum(other, etherHeader)
	taken("ours on a link", before, r1In, d.link(w, 0), true)
	taken("another flow's at an edge", before, r1Edge, frame{data: other}, false)
	taken("another flow's at a bridge's member", behindIn, member, frame{data: other}, false)
	taken("what was sourced at a bridge's member", behindIn, member, d.ingress(member, frame{data: other}), true)
	var port bpfobj.TcRdrPort
	d.must("member", d.Maps[bpfobj.TcMapPorts].Lookup(uint32(member), &port))
	port.Flags &^= uint16(bpfobj.TcRdrPortFlagRDR_PF_SOURCE_IN)
	d.put(bpfobj.TcMapPorts, uint32(member), port)
	taken("another flow's at a member that sources nothing", before, member, frame{data: other}, false)
	d.deliver(w, 0)
	taken("a late copy on a link", before, r1In, d.link(w, 0), true)
	taken("one that has arrived, at an edge", before, r1Edge, d.link(w, 0), false)

	c = config{}
	d = newDomain(t, c)
	p = newPayload(d, c, 1000, 0)
	w = d.send(frame{data: orig})
	taken("ours without a mark, at an edge", goesOut|before, r1Edge, d.link(w, 0), true)
	d.deliver(w, 0)
	taken("one that has arrived, without a mark, at an edge", goesOut|before, r1Edge, d.link(w, 0), false)
}
