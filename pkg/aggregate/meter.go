// SPDX-License-Identifier: Apache-2.0

package aggregate

import "slices"

// Bounds of what throughput is computed from.
const (
	// Seconds is how many seconds with traffic each meter remembers one by one.
	Seconds = 300
	// MaxSeconds bounds those of all meters together (16 bytes each). Beyond it a
	// meter forgets an older second for each new one, and none begins to remember.
	MaxSeconds = 1 << 20
)

// second is what passed in one second.
type second struct {
	at      uint32 // Unix time, s
	packets uint32
	bytes   uint64
}

// meter counts what passes somewhere, in all and by second.
type meter struct {
	packets, bytes uint64
	first, last    int64    // Unix ns of the first and the last that passed
	active         uint64   // seconds in which something passed
	peak           second   // the one with most bytes
	recent         []second // the newest, in order of time
}

// moment is a time and the second that it is in.
type moment struct {
	ns     int64  // Unix time
	second uint32 // Unix time, s
}

// add counts n packets that passed at a moment. room is how many seconds more may be
// remembered by anyone.
func (m *meter) add(when moment, n, bytes uint64, room *int) {
	m.span(when.ns, when.ns)
	at := when.second
	m.packets += n
	m.bytes += bytes
	i := len(m.recent) - 1
	if i < 0 || m.recent[i].at != at {
		if i = m.second(at, room); i < 0 {
			return
		}
	}
	s := &m.recent[i]
	s.packets += uint32(n)
	s.bytes += bytes
	if s.bytes > m.peak.bytes {
		m.peak = *s
	}
}

// span makes first and last include what passed from one time to another; it is called
// before that is counted.
func (m *meter) span(first, last int64) {
	if m.packets == 0 || first < m.first {
		m.first = first
	}
	if m.packets == 0 || last > m.last {
		m.last = last
	}
}

// busySeconds is how long something passed: the seconds in which something did, of the
// first one only what follows the first packet, of the last one only what precedes
// the last packet; but one second at least.
func (m *meter) busySeconds() float64 {
	const sec = int64(1e9)
	unused := m.first%sec + (sec - m.last%sec)
	return max(1, float64(m.active)-float64(unused)/float64(sec))
}

// second returns the place of a second in recent, which it makes if need be; -1 if
// it is older than all that are remembered.
func (m *meter) second(at uint32, room *int) int {
	i := len(m.recent)
	for i > 0 && m.recent[i-1].at > at {
		i--
	}
	if i > 0 && m.recent[i-1].at == at {
		return i - 1
	}
	if len(m.recent) < Seconds && *room > 0 {
		*room--
	} else if i == 0 {
		return -1
	} else { // the oldest makes place
		m.recent = slices.Delete(m.recent, 0, 1)
		i--
	}
	m.recent = slices.Insert(m.recent, i, second{at: at})
	m.active++
	return i
}

// merge adds all of o.
func (m *meter) merge(o *meter) {
	if o.packets > 0 {
		m.span(o.first, o.last)
	}
	m.packets += o.packets
	m.bytes += o.bytes
	was := len(m.recent)
	forgotten := m.active - uint64(was) + o.active - uint64(len(o.recent))
	all := append(slices.Clone(m.recent), o.recent...)
	slices.SortFunc(all, func(a, b second) int { return int(a.at) - int(b.at) })
	m.recent = all[:0]
	if o.peak.bytes > m.peak.bytes {
		m.peak = o.peak
	}
	for _, s := range all {
		if n := len(m.recent); n > 0 && m.recent[n-1].at == s.at {
			m.recent[n-1].packets += s.packets
			m.recent[n-1].bytes += s.bytes
		} else {
			m.recent = append(m.recent, s)
		}
		if last := m.recent[len(m.recent)-1]; last.bytes > m.peak.bytes {
			m.peak = last
		}
	}
	m.active = forgotten + uint64(len(m.recent))
}

// between sums up the seconds from first on, before end.
func (m *meter) between(first, end uint32) (packets, bytes uint64) {
	for _, s := range m.recent {
		if s.at >= first && s.at < end {
			packets += uint64(s.packets)
			bytes += s.bytes
		}
	}
	return packets, bytes
}
