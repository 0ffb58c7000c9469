// SPDX-License-Identifier: Apache-2.0

package dut

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/forward"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/loader"
)

func testOptions() Options {
	return Options{Sizes: []int{64, 512, 1518}, Duration: 10 * time.Second, Wait: 5 * time.Second, Hook: loader.HookAuto, Loopback: LoopbackFirst}
}

func rates(t *testing.T, texts ...string) (list []Rate) {
	t.Helper()
	for _, text := range texts {
		r, err := ParseRate(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// TestSweep: there is a row for each rate, size and direction, with the loop-back's figures beside it, and
// interface counters agree with what was sent.
func TestSweep(t *testing.T) {
	w := newWorld(t).router()
	s := &Sweep{Options: testOptions(), Rates: rates(t, "500pps", "4Mbit"), Packets: 60}
	s.Round = true
	before := w.red.counters()
	r, err := s.Run(t.Context(), &Device{In: w.blue, Out: w.red})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Complete || len(r.Rows) != 2*3*3 || len(r.Loopback) != 2*3 || len(r.Fits) != 2*3*2 {
		t.Fatalf("complete %v, %d rows, %d of the loop-back, %d fits", r.Complete, len(r.Rows), len(r.Loopback), len(r.Fits))
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Sent != 60 || row.Lost != 0 || row.Delay == nil || row.Loopback == nil || row.NotSent != 0 || row.Late != 0 || row.Resized != 0 {
			t.Errorf("%+v", row)
		}
		if want := []string{Forward, Reverse, Round}[i%3]; row.Direction != want || row.Size != s.Sizes[i/3%3] || row.Rate != s.Rates[i/9].String() {
			t.Errorf("row %d: %+v", i, row.Counts)
		}
	}
	// Those that warm up, and ARP, come in addition.
	if now := w.red.counters().since(before); now.In < 360 || now.In > 360+2*warmUps || now.Out < now.In-20 {
		t.Errorf("red counts %+v", now)
	}
}

// TestLoopbackOnly: the loop-back needs no device, and loses nothing.
func TestLoopbackOnly(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		s := &Sweep{Options: testOptions(), Rates: rates(t, "1kpps"), Packets: 50, IPv6: ipv6}
		s.Sizes, s.Loopback = []int{128, 9018}, LoopbackOnly
		r, err := s.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Loopback) != 2 || len(r.Rows) != 0 || !r.Complete {
			t.Errorf("%+v", r)
		}
		for _, row := range r.Loopback {
			if row.Received != 50 || row.Sent != 50 || row.Delay.MinNs <= 0 {
				t.Errorf("%+v, %+v", row.Counts, row.Delay)
			}
		}
	}
}

// TestInterrupted: what was measured until then is told, and nothing else is claimed.
func TestInterrupted(t *testing.T) {
	w := newWorld(t).bridge()
	ctx, cancel := context.WithCancel(t.Context())
	s := &Sweep{Options: testOptions(), Rates: rates(t, "200pps"), Packets: 40}
	s.Loopback = LoopbackNone
	s.Progress = func(format string, args ...any) {
		if args[1] == 512 {
			cancel()
		}
	}
	r, err := s.Run(ctx, &Device{In: w.blue, Out: w.red})
	if !errors.Is(err, context.Canceled) || r == nil || r.Complete || len(r.Rows) != 2 || r.Rows[0].Received != 40 || r.Rows[1].Sent != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if found := w.standing(); len(found) != 0 {
		t.Errorf("left is %q", found)
	}
}

// TestSweepsRefused: each makes no sense, and the error says what to use.
func TestSweepsRefused(t *testing.T) {
	w := newWorld(t).router()
	ok := Sweep{Options: testOptions(), Rates: rates(t, "1kpps"), Packets: 10}
	for want, change := range map[string]func(s *Sweep){
		"no rate: use ‹rates›":            func(s *Sweep) { s.Rates = nil },
		"‹count› 0: use 1 to 1048576":     func(s *Sweep) { s.Packets = 0 },
		"‹count› 2000000: use":            func(s *Sweep) { s.Packets = 2000000 },
		"‹duration› 0s: use more than 0":  func(s *Sweep) { s.Duration = 0 },
		"‹wait› -1s: use 0 or more":       func(s *Sweep) { s.Wait = -time.Second },
		"size 60: a frame of IPv4":        func(s *Sweep) { s.Sizes = []int{60} },
		"red/e0 has an MTU of 1400":       func(s *Sweep) { w.red.MTU = 1400 },
		"‹subtract› needs the loop-back":  func(s *Sweep) { s.Subtract, s.Loopback = true, LoopbackNone },
		"size 20000: frames have 9234 by": func(s *Sweep) { s.Sizes = []int{20000} },
	} {
		s := ok
		change(&s)
		r, err := s.Run(t.Context(), &Device{In: w.blue, Out: w.red})
		if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v; want %q", r, err, want)
		}
		w.red.MTU = 1500
	}
	s := ok
	s.Round = true
	if _, err := s.Run(t.Context(), &Device{In: w.blue, Out: w.blue}); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "‹round› needs two ports") {
		t.Errorf("%v", err)
	}
}

// TestRFC2544: a device of 4 Mbit/s and a short queue. Load can make what is found less, never more.
func TestRFC2544(t *testing.T) {
	t.Parallel()
	const rate, queue = 4e6, 20
	w := newWorld(t)
	f := w.forwarder(forward.Config{Rate: rate, Queue: queue})
	p := &RFC2544{Options: testOptions(), Tests: Tests(), MaxRate: rates(t, "8Mbit")[0], Precision: 0.1, Repeats: 2, MaxBurst: 64}
	p.Sizes, p.Duration, p.Wait = []int{512, 1518}, 400*time.Millisecond, 200*time.Millisecond
	before := f.Counts()[0]
	r, err := p.Run(t.Context(), &Device{In: w.blue, Out: w.red})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Complete || len(r.Throughput) != 2 || len(r.Latency) != 2 || len(r.Bursts) != 2 || len(r.Loss) < 4 {
		t.Fatalf("%+v", r)
	}
	for i, size := range p.Sizes {
		most := (rate*p.Duration.Seconds()/8/float64(size-fcsLen) + queue + 1) / p.Duration.Seconds()
		row, l, b := r.Throughput[i], r.Latency[i], r.Bursts[i]
		if row.Size != size || row.PPS > 1.1*most || row.Trials < 2 && row.Limit == ByDevice || row.Bits != row.PPS*float64(8*size) {
			t.Errorf("throughput %+v, at most %v", row, most)
		}
		least := int64(float64(8*(size-fcsLen)) / rate * 1e9)
		if l.Size != size || l.PPS != row.PPS || l.PPS > 0 && (l.Repeats != 2 || l.Delay == nil || l.Delay.MinNs < least || l.Loopback == nil) {
			t.Errorf("latency %+v, at least %d", l, least)
		}
		if b.Size != size || b.Repeats != 2 || b.Packets > 64 || b.Packets < 1 {
			t.Errorf("bursts %+v", b)
		}
	}
	wantLoss(t, r.Loss, p.Sizes)
	// The forwarder has dropped what is missing, of all trials together. Those of the loss table are some.
	now, lost := f.Counts()[0], 0
	for _, row := range r.Loss {
		lost += row.Lost
	}
	if drops := int(now.Full - before.Full); lost > drops {
		t.Errorf("%d lost, the forwarder dropped %d", lost, drops)
	}
}

// wantLoss wants steps of ten per cent down from all, until two of a size have lost nothing.
func wantLoss(t *testing.T, rows []Loss, sizes []int) {
	t.Helper()
	for _, size := range sizes {
		clean, next := 0, 100.0
		for _, row := range rows {
			if row.Size != size {
				continue
			}
			if row.Percent != next || clean == 2 || row.Lost > row.Sent || row.Rate != 100*float64(row.Lost)/float64(row.Sent) {
				t.Errorf("%+v behind %v clean ones", row, clean)
			}
			if clean++; row.Lost > 0 {
				clean = 0
			}
			next -= 10
		}
		if clean != 2 && next > 0 {
			t.Errorf("size %d ends at %v%% with %d clean steps: %+v", size, next+10, clean, rows)
		}
	}
}

// TestRFC2544Refused: each makes no sense.
func TestRFC2544Refused(t *testing.T) {
	t.Parallel()
	w := newWorld(t).router()
	ok := RFC2544{Options: testOptions(), Tests: Tests(), MaxRate: RateOf(1000), Precision: 0.01, Repeats: 1, MaxBurst: 10}
	for want, change := range map[string]func(p *RFC2544){
		"measures one way":           func(p *RFC2544) { p.Round = true },
		"needs a device":             func(p *RFC2544) { p.Loopback = LoopbackOnly },
		"‹precision› 1: use":         func(p *RFC2544) { p.Precision = 1 },
		"‹repeats› 0: use":           func(p *RFC2544) { p.Repeats = 0 },
		"‹max-burst› 0: use":         func(p *RFC2544) { p.MaxBurst = 0 },
		`no procedure is called "x"`: func(p *RFC2544) { p.Tests = []string{"x"} },
		"at most 1048576 can be":     func(p *RFC2544) { p.MaxRate = RateOf(1e6) },
	} {
		p := ok
		p.Tests = slices.Clone(ok.Tests)
		change(&p)
		if _, err := p.Run(t.Context(), &Device{In: w.blue, Out: w.red}); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
