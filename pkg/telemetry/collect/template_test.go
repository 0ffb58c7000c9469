// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// templateBench hears reports and makes templates of them.
type templateBench struct {
	t      testing.TB
	tr     Translator
	engine *metrics.Engine
	shared map[int]metrics.Band
	maker  templates
	report metrics.Report
}

func newTemplateBench(t testing.TB, c metrics.Config) *templateBench {
	b := &templateBench{t: t, engine: metrics.New(c), shared: make(map[int]metrics.Band)}
	b.engine.Moved = func(index uint32, band metrics.Band) { b.shared[int(index)] = band }
	return b
}

// hear lets the engine hear a packet's reports, and returns how many events they raised, and the
// template of others like the last.
func (b *templateBench) hear(ip []byte) (reports, events int, tmpl *Template) {
	p := Packet{noon, ip}
	m := b.tr.Decode(p)
	if m == nil {
		return 0, 0, nil
	}
	b.tr.Observe(m, func(o *Observed) {
		reports++
		b.tr.measured(o, &b.report, p.At)
		events += b.engine.Add(&b.report, nil)
		tmpl = b.maker.make(p, m, o, &b.report, b.engine)
	})
	return reports, events, tmpl
}

func (b *templateBench) band(index int) metrics.Band { return b.shared[index] }

// TestTemplates: whatever is changed in a report, if it fits the template of the one before, it is
// one report that raises no event.
func TestTemplates(t *testing.T) {
	all := frames(t)
	var names, without []string
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	rng := rand.New(rand.NewPCG(1, 2))
	taken, tried := 0, 0
	for _, name := range names {
		ip := all[name]
		c := metrics.DefaultConfig()
		c.Congested = uint64(rng.IntN(2)) * 1000
		b := newTemplateBench(t, c)
		n, _, _ := b.hear(ip)
		_, events, made := b.hear(ip)
		if n == 0 {
			continue
		}
		if events > 0 {
			t.Errorf("%s: the same again raises %d events", name, events)
		}
		if made == nil {
			without = append(without, name)
			continue
		}
		tmpl := *made
		tmpl.Mask, tmpl.Value, tmpl.Bands = slices.Clone(made.Mask), slices.Clone(made.Value), slices.Clone(made.Bands)
		_, payload, err := Packet{IP: ip}.UDP()
		if err != nil {
			t.Fatal(err)
		}
		head := len(ip) - len(payload)
		for range 30000 {
			other := slices.Clone(ip)
			for range 1 + rng.IntN(3) {
				i := head + rng.IntN(len(ip)-head)
				switch rng.IntN(3) {
				case 0:
					other[i] = byte(rng.Uint32())
				case 1:
					other[i] ^= 1 << rng.IntN(8)
				case 2:
					other[i] += byte(rng.IntN(3)) - 1
				}
			}
			tried++
			if !tmpl.Fits(other[head:], b.band) {
				continue
			}
			taken++
			if n, events, _ := b.hear(other); n != 1 || events != 0 {
				t.Fatalf("%s: %d reports, %d events of what fits\n%x\n%x\nmask %x\n%+v", name, n, events, ip[head:], other[head:], tmpl.Mask, tmpl.Bands)
			}
		}
	}
	t.Logf("%d of %d taken; without a template: %v", taken, tried, without)
	if taken < tried/10 {
		t.Errorf("%d of %d taken", taken, tried)
	}
}

// TestLongerReports: what ends where its quoted header does has room for INT in a longer one.
func TestLongerReports(t *testing.T) {
	all := frames(t)
	b := newTemplateBench(t, metrics.DefaultConfig())
	ip := all["tr20-ex-baseline-ipv4"]
	b.hear(ip)
	_, _, tmpl := b.hear(ip)
	_, payload, err := Packet{IP: ip}.UDP()
	if err != nil || tmpl == nil {
		t.Fatal(err, tmpl)
	}
	if !tmpl.Fits(payload, b.band) {
		t.Error("the report itself does not fit")
	}
	longer := append(slices.Clone(payload), make([]byte, 20)...)
	if tmpl.MaxLen == 0 || tmpl.Fits(longer, b.band) {
		t.Errorf("%d bytes more fit: %+v", len(longer)-len(payload), tmpl.MaxLen)
	}
}
