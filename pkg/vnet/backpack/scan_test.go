// SPDX-License-Identifier: Apache-2.0

package backpack_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	rt "github.com/vnetradar/radar/pkg/vnet/backpack/ringtest"
)

// fill sends n packets, one each second, over two CPUs, so that positions are not in
// the order of time.
func fill(m *rt.Image, n int) (last uint64) {
	for i := range n {
		last = uint64(1000+i) * second
		p := udp
		p.ID = uint16(i)
		pos, ok := m.Send(i%2, p, rt.Egress, h1e0, last)
		if !ok {
			panic("no slot")
		}
		m.See(pos, rt.Deliver, rt.First, r1e0, last+1000)
	}
	return last
}

func TestScan(t *testing.T) {
	m := rt.New(64, 128, 2, 8)
	end := fill(m, 150)
	dec := backpack.NewDecoder(testDomain(64), names{})
	even := func(p *packet.Packet, _ packet.Scope) bool { return p.ID%2 == 0 }
	for _, tc := range []struct {
		name        string
		opts        backpack.ScanOptions
		first, last int // IP IDs
		step        int
	}{
		// 150 packets in 19 blocks of 8, of which two CPUs have begun the last: the
		// ring remembers at least 64 - 2 x 8 of them.
		{"newest 5", backpack.ScanOptions{Last: 5}, 145, 149, 1},
		{"newest 5 of the even ones", backpack.ScanOptions{Last: 5, Select: backpack.Select{Match: even}}, 140, 148, 2},
		{"of the last 9 seconds", backpack.ScanOptions{Since: 9 * time.Second}, 140, 149, 1},
		{"newest 100 of the last 9 seconds", backpack.ScanOptions{Last: 100, Since: 9 * time.Second}, 140, 149, 1},
		{"even ones of the last 9 seconds", backpack.ScanOptions{Since: 9 * time.Second, Select: backpack.Select{Match: even}}, 140, 148, 2},
		{"since before the clock began", backpack.ScanOptions{Last: 1, Since: 1e6 * time.Hour}, 149, 149, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.Now = func() uint64 { return end }
			recs, stats, err := backpack.Scan(m, dec, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			var got, want []int
			for _, r := range recs {
				got = append(got, r.IPID)
			}
			for id := tc.first; id <= tc.last; id += tc.step {
				want = append(want, id)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("packets %v, want %v", got, want)
			}
			if stats.Slots != 64 || stats.Torn != 0 {
				t.Errorf("%+v, want all 64 slots", stats)
			}
		})
	}
}

func TestScanAll(t *testing.T) {
	m := rt.New(64, 128, 2, 8)
	fill(m, 150)
	recs, _, err := backpack.Scan(m, backpack.NewDecoder(testDomain(64), nil), backpack.ScanOptions{})
	if err != nil || len(recs) != 64 {
		t.Fatalf("%d records, %v: want what 64 slots hold", len(recs), err)
	}
	for i := range recs[1:] {
		if recs[i].TNs > recs[i+1].TNs {
			t.Fatalf("record %d is younger than the next", i)
		}
	}
}

func TestScanFuncStops(t *testing.T) {
	m := rt.New(64, 128, 2, 8)
	fill(m, 20)
	stop := errors.New("enough")
	for _, last := range []int{0, 10} {
		n := 0
		_, err := backpack.ScanFunc(m, backpack.NewDecoder(testDomain(64), nil), backpack.ScanOptions{Last: last},
			func(*record.Record) error {
				if n++; n == 3 {
					return stop
				}
				return nil
			})
		if !errors.Is(err, stop) || n != 3 {
			t.Errorf("last %d: %d calls, error %v", last, n, err)
		}
	}
}

// The newest of a cut train come first, and not more than asked for.
func TestScanLastOfTrain(t *testing.T) {
	b := cutBench(t)
	recs, _, err := backpack.Scan(b, backpack.NewDecoder(testDomain(64), nil), backpack.ScanOptions{
		Last: 3, Now: func() uint64 { return b.now },
	})
	if err != nil || len(recs) != 3 || recs[0].IPID != 0xffff || recs[2].IPID != 1 {
		t.Errorf("%d records (%v), want segments 1 to 3", len(recs), err)
	}
}

func TestEmptyAndWrongRings(t *testing.T) {
	m := rt.New(64, 128, 1, 8)
	if recs, stats, err := backpack.Scan(m, backpack.NewDecoder(testDomain(64), nil), backpack.ScanOptions{}); err != nil || len(recs) != 0 || stats.Slots != 0 {
		t.Errorf("empty ring: %d records, %+v, %v", len(recs), stats, err)
	}
	for _, tc := range []struct {
		name  string
		mem   []byte
		slots uint32
		bytes int
	}{
		{"no slots", nil, 0, 128},
		{"not a power of two", m.Mem, 48, 128},
		{"half a line", m.Mem, 64, 96},
		{"one line", m.Mem, 128, 64},
		{"too long", m.Mem, 8, 1024},
		{"not all there", m.Mem[:64], 64, 128},
		{"between words", append(make([]byte, 0, len(m.Mem)+8), m.Mem...)[4:][:0:len(m.Mem)], 64, 128},
	} {
		if _, err := backpack.NewRing(tc.mem, tc.slots, tc.bytes); err == nil {
			t.Errorf("%s: accepted", tc.name)
		}
	}
}
