// SPDX-License-Identifier: Apache-2.0

package intwire

import "cmp"

// INT leaves the units of times and latencies to the device (INT 2.1, "INT Metadata"). If a hop's
// egress time is not its ingress time plus its latency, the source has other units than assumed.

// units sets the units of a message, and checks hop latencies against the times beside them.
func (d *Decoder) units(m *Message) {
	if m.Profile == nil {
		m.LatencyNs, m.TimeNs = 1, 1
		return
	}
	time := cmp.Or(d.TimeNs, m.Profile.TimeNs)
	m.TimeNs = max(time, 1)
	u := unitsOf{latency: uint64(d.LatencyNs), time: uint64(time), given: d.LatencyNs > 0}
	if !u.given {
		u.latency, u.given = uint64(max(m.Profile.HopLatencyNs, 1)), m.Profile.HopLatencyNs > 0
	}
	m.LatencyNs = uint32(u.latency)
	for _, ints := range [...][]INT{m.INT, m.Embedded} {
		for i := range ints {
			in := &ints[i]
			if in.Incomplete { // bytes behind the stack may have been read as a hop
				continue
			}
			for j := range in.Hops {
				if !u.agree(m, &in.Hops[j].Values, in.ShortTimes()) {
					return
				}
			}
		}
	}
	for i := range m.Reports {
		if !u.agree(m, &m.Reports[i].Values, false) {
			return
		}
	}
}

// ShortTimes reports whether times of ingress and egress in the stack have 32 bits: in ns, they wrap
// every 4.3 s.
func (in *INT) ShortTimes() bool { return in.Header.Layout != INT20 && in.Options&LongTimes == 0 }

// unitsOf are the units of a source's latencies and times, ns. time is 0 if it is not known.
type unitsOf struct {
	latency, time uint64
	given         bool // latency is known, not assumed
}

const timesOf = Fields(1<<HopLatency | 1<<IngressTS | 1<<EgressTS)

// agree reports whether a hop's latency is the difference of its times, if it has all three, and
// notes it if not. short: times have 32 bits.
func (u *unitsOf) agree(m *Message, v *Values, short bool) bool {
	if v.Has&^v.Invalid&timesOf != timesOf {
		return true
	}
	latency, between := v.V[HopLatency], v.V[EgressTS]-v.V[IngressTS]
	switch {
	case short:
		between = uint64(uint32(between))
	case v.V[EgressTS] < v.V[IngressTS]: // a clock of fewer bits has wrapped
		return true
	}
	const most = 1 << 42 // so that no product is too large
	between = min(between, most)
	var ok bool
	switch {
	case u.time > 0:
		ok = alike(latency*u.latency, between*u.time, max(u.latency, u.time))
	case u.given:
		for time := uint64(1); time <= 1e6 && !ok; time *= 1000 {
			ok = alike(latency*u.latency, between*time, max(u.latency, time))
		}
	default: // assume that both have the same unit
		ok = alike(latency, between, 1)
	}
	if !ok {
		m.note(OtherUnits, int(latency), int(min(between, 1<<32-1)))
	}
	return ok
}

// alike reports whether two times are about the same: nodes take times at different places, and round.
func alike(a, b, grain uint64) bool {
	const factor = 16
	return max(a, b) <= factor*(min(a, b)+grain)
}
