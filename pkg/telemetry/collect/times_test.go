// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// timed is a node's report of the one packet, with its times as sent. What is 0 is not sent.
type timed struct {
	from    string
	node    uint32
	in, out uint64
	latency uint64
	short   bool // by TR 1.0, which has 32 bits for the ingress, and none for the egress here
}

func (c timed) packet(t *testing.T, at time.Time) Packet {
	t.Helper()
	quote, err := AppendUDP(nil, netip.MustParseAddrPort("10.1.0.1:1000"), netip.MustParseAddrPort("10.2.0.2:2000"), []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	quote[8] = 64 - uint8(c.node)
	var v intwire.Values
	for f, n := range map[intwire.Field]uint64{intwire.IngressTS: c.in, intwire.EgressTS: c.out, intwire.HopLatency: c.latency} {
		if n > 0 && (!c.short || f == intwire.HopLatency) {
			v.Set(f, n)
		}
	}
	v.Set(intwire.L1In, 1)
	v.Set(intwire.L1Out, 2)
	var payload []byte
	if c.short {
		payload, err = intwire.AppendReport10(nil, &intwire.Report{
			Layout: intwire.Report10, NProto: intwire.InnerIPv4 - intwire.InnerEthernet, F: true, SwitchID: c.node, IngressTS: uint32(c.in),
			RepMdBits: uint8(intwire.Bitmap(intwire.TR10, v.Has) >> 10), Values: v, Inner: quote,
		})
	} else {
		s := intwire.Single{RepType: 1, InType: intwire.InnerIPv4, F: true, RepMdBits: intwire.Bitmap(intwire.TR20, v.Has), Values: v, Inner: quote}
		if payload, err = intwire.AppendGroup(nil, &intwire.Group{NodeID: c.node}); err == nil {
			payload, err = intwire.AppendSingle(payload, &s)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	ip, err := AppendUDP(nil, netip.MustParseAddrPort(c.from+":9"), netip.MustParseAddrPort("10.9.9.9:32766"), payload)
	if err != nil {
		t.Fatal(err)
	}
	return Packet{at, ip}
}

// TestClocks: times between nodes come from sources that say that one clock is behind them, and from no
// others; what cannot be is counted.
func TestClocks(t *testing.T) {
	const a, b, wrap = "10.9.0.1", "10.9.0.2", 1 << 32
	two := func(from string, out1, in2 uint64) []timed {
		return []timed{{a, 1, 1000, out1, 400, false}, {from, 2, in2, 2000, 300, false}}
	}
	for _, c := range []struct {
		name    string
		sources string
		cards   []timed
		want    string // the latency of the link, and end to end
		faults  uint64
	}{
		{"nobody says", "", two(a, 1500, 1800), "flow 700", 0},
		{"one source", a + "=spec-2.1,clock=shared", two(a, 1500, 1800), "1>2 300, flow 1000", 0},
		{"two that share one", a + "=auto,clock=shared " + b + "=spec-2.1,clock=shared", two(b, 1500, 1800), "1>2 300, flow 1000", 0},
		{"one of two", a + "=auto,clock=shared", two(b, 1500, 1800), "flow 700", 0},
		{"radar", a + "=radar", two(a, 1500, 1800), "1>2 300, flow 1000", 0},
		{"two hosts with radar", a + "=radar " + b + "=radar", two(b, 1500, 1800), "flow 700", 0},
		{"us", a + "=spec-2.1,time=us,clock=shared", two(a, 1500, 1800), "1>2 300000, flow 1000000", 0},
		{"us and ns", a + "=auto,clock=shared,time=us " + b + "=auto,clock=shared,time=ns", []timed{{a, 1, 1, 2, 1, false}, {b, 2, 2500, 3000, 1, false}}, "1>2 500, flow 2000", 0},
		{"back in time", a + "=auto,clock=shared", two(a, 1900, 1800), "flow 1000", 1},
		{"for more than a minute", a + "=auto,clock=shared,time=ms", []timed{{a, 1, 1000, 1001, 1, false}, {a, 2, 61002, 61003, 1, false}}, "flow 2", 2},
		{"32 bits", a + "=spec-1.0,clock=shared", []timed{{a, 1, wrap - 500, 0, 400, true}, {a, 2, 200, 0, 300, true}}, "1>2 300, flow 1000", 0},
		{"32 bits back in time", a + "=spec-1.0,clock=shared", []timed{{a, 1, 200, 0, 400, true}, {a, 2, wrap - 500, 0, 300, true}}, "flow 700", 2},
		{"32 bits of ns and us", a + "=spec-1.0,clock=shared " + b + "=auto,clock=shared,time=us", []timed{{a, 1, 1000, 0, 400, true}, {b, 2, 2, 3, 300, false}}, "flow 700", 2},
		{"ends that one time is of", a + "=auto,clock=shared", []timed{{a, 1, 0, 1500, 0, false}, {a, 2, 1800, 0, 0, false}}, "1>2 300, flow 300", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := &Translator{Join: time.Second}
			for _, s := range strings.Fields(c.sources) {
				source, sends, _ := strings.Cut(s, "=")
				if err := tr.SetSource(source, sends); err != nil {
					t.Fatal(err)
				}
			}
			collector := newCollector(t, tr, Info{}, nil)
			var got []string
			collector.Changed = func(e *metrics.Event) {
				switch e.Metric {
				case metrics.LinkLatency:
					got = append(got, fmt.Sprintf("%d>%d %d", e.Node, e.To, e.Value))
				case metrics.FlowLatency:
					got = append(got, fmt.Sprint("flow ", e.Value))
				}
			}
			for _, card := range c.cards {
				if err := collector.Add(card.packet(t, noon)); err != nil {
					t.Fatal(err)
				}
			}
			last, err := collector.Close()
			if err != nil {
				t.Fatal(err)
			}
			if s := strings.Join(got, ", "); s != c.want || last.Counts.ClockFaults != c.faults {
				t.Errorf("%s, %d faults, want %s, %d", s, last.Counts.ClockFaults, c.want, c.faults)
			}
		})
	}
}

// TestEventTime: on request an event is when the report says, if that can be, else when it came, which
// is counted.
func TestEventTime(t *testing.T) {
	const wrap = 1 << 32
	came := uint64(noon.UnixNano())
	for _, c := range []struct {
		name            string
		sends           string
		card            timed
		want            int64 // after noon
		untimed, skewed uint64
		unasked         bool
	}{
		{"nobody asks", "auto", timed{in: came - 9, out: came - 5}, 0, 0, 0, true},
		{"egress", "auto", timed{in: came - 9, out: came - 5}, -5, 0, 0, false},
		{"ingress alone", "auto", timed{in: came - 9}, -9, 0, 0, false},
		{"ahead", "auto", timed{out: came + 7e9}, 7e9, 0, 0, false},
		{"too far ahead", "auto", timed{out: came + 11e9}, 0, 0, 1, false},
		{"too long ago", "auto", timed{out: came - 11e9}, 0, 0, 1, false},
		{"since the switch began", "auto", timed{out: 1234567}, 0, 0, 1, false},
		{"beyond all times", "auto,time=ms", timed{out: wrap << 30}, 0, 0, 1, false},
		{"no time", "auto", timed{}, 0, 1, 0, false},
		{"us", "auto,time=us", timed{out: came/1000 - 3e6}, -3e9 - int64(came%1000), 0, 0, false},
		{"32 bits, 3 s ago", "spec-1.0", timed{in: (came - 3e9) % wrap, short: true}, -3e9, 0, 0, false},
		{"32 bits, 1 s ahead", "spec-1.0", timed{in: (came + 1e9) % wrap, short: true}, 1e9, 0, 0, false},
		{"32 bits, us, 9 s ago", "spec-1.0,time=us", timed{in: (came/1000 - 9e6) % wrap, short: true}, -9e9 - int64(came%1000), 0, 0, false},
		{"32 bits, us, too long ago", "spec-1.0,time=us", timed{in: (came/1000 - 11e6) % wrap, short: true}, 0, 0, 1, false},
		{"32 bits, none", "spec-1.0", timed{short: true}, 0, 1, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := &Translator{MostSkew: 10 * time.Second}
			if c.unasked {
				tr.MostSkew = 0
			}
			c.card.from, c.card.node = "10.9.0.1", 1
			if err := tr.SetSource(c.card.from, c.sends); err != nil {
				t.Fatal(err)
			}
			c.card.latency = 100
			collector := newCollector(t, tr, Info{}, nil)
			var got []int64
			collector.Changed = func(e *metrics.Event) { got = append(got, e.At-noon.UnixNano()) }
			if err := collector.Add(c.card.packet(t, noon)); err != nil {
				t.Fatal(err)
			}
			rows := collector.Rows(noon)
			n := collector.Info().Counts
			if !slices.Equal(got, []int64{c.want}) || len(rows) != 1 || rows[0].At-noon.UnixNano() != c.want {
				t.Errorf("events at %d, want %d; %+v", got, c.want, rows)
			}
			if n.Untimed != c.untimed || n.Skewed != c.skewed {
				t.Errorf("%d without a time, %d skewed, want %d and %d", n.Untimed, n.Skewed, c.untimed, c.skewed)
			}
			if _, err := collector.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestEventTimeAges: what grows old does so by when reports came, whatever times they tell.
func TestEventTimeAges(t *testing.T) {
	tr := &Translator{MostSkew: time.Hour}
	if err := tr.SetSource("10.9.0.1", "auto"); err != nil {
		t.Fatal(err)
	}
	collector := newCollector(t, tr, Info{}, nil)
	card := timed{from: "10.9.0.1", node: 1, out: uint64(noon.Add(-30 * time.Minute).UnixNano()), latency: 100}
	if err := collector.Add(card.packet(t, noon)); err != nil {
		t.Fatal(err)
	}
	if n := len(collector.Rows(noon.Add(time.Minute))); n != 1 {
		t.Errorf("%d values after a minute", n)
	}
	if n := len(collector.Rows(noon.Add(6 * time.Minute))); n != 0 {
		t.Errorf("%d values after six", n)
	}
}

// TestDated: packets have the time at which the first node had them, if one clock is behind all nodes and it can be that
// of the day. Else it is when their report came, which is said: it tells neither order nor rate.
func TestDated(t *testing.T) {
	const from = "10.9.0.1"
	day := uint64(noon.UnixNano())
	for _, c := range []struct {
		name, source string
		begin        uint64
		want         string
	}{
		{"nobody says", "", day - 5_000_000, "0 undated"},
		{"one clock", "radar", day - 5_000_000, "-5000000"},
		{"its time is to come, as clocks are set", "radar", day + 70_000, "70000"},
		{"not of the day", "spec-2.1,clock=shared", 1000, "0 undated"},
	} {
		var got []string
		tr := &Translator{Join: time.Second, Emit: func(p *Reported) {
			text := fmt.Sprint(int64(p.T0) - int64(day))
			if p.Undated {
				text += " undated"
			}
			got = append(got, text)
		}}
		if c.source != "" {
			if err := tr.SetSource(from, c.source); err != nil {
				t.Fatal(err)
			}
		}
		tr.Translate(timed{from, 1, c.begin, c.begin + 400, 400, false}.packet(t, noon), 1)
		tr.Translate(timed{from, 2, c.begin + 500, c.begin + 800, 300, false}.packet(t, noon), 2)
		tr.End()
		if fmt.Sprint(got) != fmt.Sprint([]string{c.want}) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
