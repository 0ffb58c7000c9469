// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

const (
	testRun   = 0xfeed0001
	testTrial = 7
	testCount = 16 // packets of the trial
)

// What programs at TC return.
const (
	tcUnspec   = 0xffffffff
	tcShot     = 2
	tcRedirect = 7
)

// loaded are the programs of a run, with a trial that runs.
func loaded(t *testing.T, size int, ipv6 bool) *programs {
	t.Helper()
	need.AsRoot(t)
	p, err := load(testRun, testCount+4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	begin(t, p, testTrial, size, ipv6)
	return p
}

func begin(t *testing.T, p *programs, trial uint32, size int, ipv6 bool) {
	t.Helper()
	if _, err := p.begin(bpfobj.DutTrial{Trial: trial, Packets: testCount, Payload: uint32(payloadOf(size, ipv6))}); err != nil {
		t.Fatal(err)
	}
}

func testFrame(t *testing.T, size int, ipv6 bool, trial, seq uint32) []byte {
	t.Helper()
	f, err := newFrame(testAddresses(ipv6), size, testRun, trial)
	if err != nil {
		t.Fatal(err)
	}
	f.number(seq)
	return f.bytes
}

func runOn(t *testing.T, prog *ebpf.Program, frame []byte) (verdict uint32, out []byte) {
	t.Helper()
	out = make([]byte, len(frame)+256)
	o := ebpf.RunOptions{Data: frame, DataOut: out}
	verdict, err := prog.Run(&o)
	if err != nil {
		t.Fatal(err)
	}
	return verdict, o.DataOut
}

// tagged puts VLAN tags into a frame.
func tagged(frame []byte, types ...uint16) []byte {
	var tags []byte
	for _, typ := range types {
		tags = binary.BigEndian.AppendUint16(tags, typ)
		tags = append(tags, 0, 42)
	}
	return slices.Concat(frame[:12], tags, frame[12:])
}

// changed returns a frame with other bytes at an offset.
func changed(frame []byte, at int, with ...byte) []byte {
	c := slices.Clone(frame)
	copy(c[at:], with)
	return c
}

// TestRecognised: test packets of this run are stamped whatever else a device has changed, and nothing
// else is.
func TestRecognised(t *testing.T) {
	const size, seq, ip, udp, mark = 128, 3, 14, 34, 42
	p := loaded(t, size, false)
	four, six := testFrame(t, size, false, testTrial, seq), testFrame(t, size, true, testTrial, seq)
	options := slices.Concat(four[:udp], []byte{1, 1, 1, 1}, four[udp:])
	options[ip] = 0x46
	// Headers that a device puts in: hop-by-hop options of 8 bytes, and a routing header of 24.
	hop := slices.Concat(changed(six[:54], ip+6, 0), []byte{17, 0, 1, 4, 0, 0, 0, 0}, six[54:])
	routed := slices.Concat(changed(six[:54], ip+6, 0), []byte{43, 0, 1, 4, 0, 0, 0, 0, 17, 2}, make([]byte, 22), six[54:])
	first := slices.Concat(changed(six[:54], ip+6, 44), []byte{17, 0, 0, 1, 0, 0, 0, 1}, six[54:])
	optioned := slices.Concat(changed(first[:54], ip+6, 0), []byte{44, 0, 1, 4, 0, 0, 0, 0}, first[54:])
	hop[ip+5], routed[ip+5], first[ip+5], optioned[ip+5] = hop[ip+5]+8, routed[ip+5]+32, first[ip+5]+8, optioned[ip+5]+16
	for _, c := range []struct {
		name  string
		frame []byte
		ours  bool
	}{
		{"as sent", four, true},
		{"other MAC addresses", changed(four, 0, 9, 9, 9, 9, 9, 9, 8, 8, 8, 8, 8, 8), true},
		{"other addresses and ports", changed(changed(four, ip+12, 1, 2, 3, 4, 5, 6, 7, 8), udp, 1, 2, 3, 4), true},
		{"other TTL and DSCP, not DF", changed(changed(four, ip+8, 1), ip+1, 0xff, 0, 126, 1, 2, 0), true},
		{"a VLAN tag", tagged(four, 0x8100), true},
		{"two VLAN tags", tagged(four, 0x88a8, 0x8100), true},
		{"IP options", options, true},
		{"IPv6", six, true},
		{"IPv6 in a VLAN", tagged(six, 0x8100), true},
		{"IPv6 with hop-by-hop options", hop, true},
		{"IPv6 with a routing header, in a VLAN", tagged(routed, 0x8100), true},
		{"an IPv6 fragment", first, false},
		{"an IPv6 fragment with options", optioned, false},
		{"IPv6 options that end beyond the packet", changed(hop, ip+40+1, 255), false},
		{"three VLAN tags", tagged(four, 0x88a8, 0x8100, 0x8100), false},
		{"another run", changed(four, mark+4, 0, 0, 0, 1), false},
		{"no mark", changed(four, mark, 0, 0, 0, 0), false},
		{"a fragment", changed(four, ip+6, 0x20, 0), false},
		{"a later fragment", changed(four, ip+6, 0, 1), false},
		{"TCP", changed(four, ip+9, 6), false},
		{"a header of 16 bytes", changed(four, ip, 0x44), false},
		{"IPv6 that says so of extension headers, and has none", changed(six, ip+6, 0), false},
		{"ARP", changed(four, 12, 8, 6), false},
		{"cut in the mark", four[:mark+15], false},
		{"cut in the UDP header", four[:udp+7], false},
	} {
		for point, prog := range []*ebpf.Program{p.objs.DutSent, p.objs.DutReceived, p.objs.DutReturned, p.objs.DutBack} {
			begin(t, p, testTrial, size, false)
			verdict, out := runOn(t, prog, c.frame)
			stamps, err := p.read(testCount)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range stamps {
				for at := range points {
					if want := c.ours && i == seq && at == point; (s.AtNs[at] != 0) != want || (s.Seen[at] == 1) != want {
						t.Errorf("%s at point %d: packet %d has stamps %+v", c.name, point, i, s)
					}
				}
			}
			if verdict != tcUnspec || !bytes.Equal(out, c.frame) {
				t.Errorf("%s at point %d: verdict %#x, frame %x", c.name, point, verdict, out)
			}
		}
		if verdict, _ := runOn(t, p.objs.DutEnd, c.frame); (verdict == tcShot) != c.ours || !c.ours && verdict != tcUnspec {
			t.Errorf("%s: the end says %#x", c.name, verdict)
		}
		if verdict, out := runOn(t, p.objs.DutReturn, c.frame); (verdict == tcRedirect) != c.ours || !c.ours && (verdict != tcUnspec || !bytes.Equal(out, c.frame)) {
			t.Errorf("%s: sent back: %#x", c.name, verdict)
		}
	}
}

// TestTally: packets that come once more, of another length, of another trial, or with a number that
// the trial does not have, are counted as what they are.
func TestTally(t *testing.T) {
	const size = 128
	p := loaded(t, size, false)
	was, err := p.tally()
	if err != nil {
		t.Fatal(err)
	}
	for _, frame := range [][]byte{
		testFrame(t, size, false, testTrial, 0), testFrame(t, size, false, testTrial, 0), testFrame(t, size, false, testTrial, 0),
		testFrame(t, size+1, false, testTrial, 1),
		testFrame(t, size, false, testTrial-1, 2),
		testFrame(t, size, false, testTrial, testCount), testFrame(t, size, false, testTrial, 1<<31),
	} {
		runOn(t, p.objs.DutReceived, frame)
	}
	now, err := p.tally()
	if err != nil {
		t.Fatal(err)
	}
	if got := [...]uint64{now.First[pointReceived] - was.First[pointReceived], now.Again[pointReceived], now.Resized, now.Late, now.Stray, now.Stuck, now.First[pointSent]}; got != [...]uint64{2, 2, 1, 1, 2, 0, 0} {
		t.Errorf("first, again, resized, late, stray, stuck, sent: %v", got)
	}
	stamps, err := p.read(testCount)
	if err != nil {
		t.Fatal(err)
	}
	if stamps[0].Seen[pointReceived] != 3 || stamps[2].Seen[pointReceived] != 0 {
		t.Errorf("%+v", stamps[:3])
	}
	// A trial begins without stamps.
	begin(t, p, testTrial+1, size, false)
	if stamps, err = p.read(testCount); err != nil || stamps[0] != (bpfobj.DutStamps{}) {
		t.Errorf("%+v, %v", stamps[0], err)
	}
}

// TestReturned: what is sent back goes from where it came to, with right checksums.
func TestReturned(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		p := loaded(t, 128, ipv6)
		a := testAddresses(ipv6)
		back := *a
		back.FromMAC, back.ToMAC, back.From, back.To = a.ToMAC, a.FromMAC, a.To, a.From
		f, err := newFrame(&back, 128, testRun, testTrial)
		if err != nil {
			t.Fatal(err)
		}
		f.number(5)
		_, out := runOn(t, p.objs.DutReturn, testFrame(t, 128, ipv6, testTrial, 5))
		if !bytes.Equal(out, f.bytes) {
			t.Errorf("IPv6 %v: sent back\n%x, want\n%x", ipv6, out, f.bytes)
		}
		wantSums(t, out, 128, ipv6)
		vlan := tagged(testFrame(t, 128, ipv6, testTrial, 5), 0x8100)
		if _, out := runOn(t, p.objs.DutReturn, vlan); !bytes.Equal(out, tagged(f.bytes, 0x8100)) {
			t.Errorf("IPv6 %v, in a VLAN: sent back\n%x", ipv6, out)
		}
	}
}
