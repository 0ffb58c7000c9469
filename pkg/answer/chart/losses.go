// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"slices"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer/stats"
	"github.com/vnetradar/radar/pkg/packet"
)

// MostPlaces is how many places of losses are kept apart.
const MostPlaces = 256

// Losses are where packets were lost, over time.
type Losses struct {
	Packets uint64 // all that have ended
	Lost    uint64 // of them: they, or copies of them
	Over    uint64 // of Lost: at places that there was no room for

	batches stats.Batches
	here    []lossKey // places of the packet that is added
	copies  map[lossKey]uint64
	places  map[lossKey]uint64
	bins    *bins[lossKey, uint64]
	sent    *bins[struct{}, uint64]
}

// lossKey is a place, in numbers.
type lossKey struct {
	node, port uint16
	aggregate.LossPlace
}

// NewLosses returns an empty one.
func NewLosses() *Losses {
	add := func(to, from *uint64) { *to += *from }
	return &Losses{places: make(map[lossKey]uint64), copies: make(map[lossKey]uint64), bins: newBins[lossKey](add), sent: newBins[struct{}](add)}
}

// Add takes a packet. It counts once at each place, however many copies of it were lost there: else shares of packets would
// be more than all.
func (l *Losses) Add(p *packet.Packet, unixNs int64) {
	n, lost, over := uint64(p.Segs), false, false
	l.here = l.here[:0]
	l.Packets += n
	*l.sent.at(unixNs, struct{}{}) += n
	aggregate.EachLoss(p, func(d *packet.Drop, ns int64) {
		lost = true
		key := lossKey{d.Node, d.Port, aggregate.LossPlace{At: d.At, Reason: d.Reason, Qdisc: d.Qdisc, Function: d.Function.Name()}}
		if _, known := l.places[key]; !known && len(l.places) >= MostPlaces {
			over = true
			return
		}
		l.copies[key] += n
		if slices.Contains(l.here, key) {
			return
		}
		l.here = append(l.here, key)
		l.places[key] += n
		*l.bins.at(unixNs+ns, key) += n
	})
	if lost {
		l.Lost += n
	}
	if over {
		l.Over += n
	}
	l.batches.Add(lost, n)
}

// Confidence is that of the intervals.
const Confidence = 0.95

// LossShare is a place, and how many packets were lost there.
type LossShare struct {
	aggregate.LossPlace
	Packets uint64  `json:"packets"`
	Copies  uint64  `json:"copies"` // of these packets: as many, or more
	Of      uint64  `json:"of"`     // packets that have ended
	Share   float64 `json:"share"`  // of them
	Low     float64 `json:"low"`    // confidence interval of the share, 95 %
	High    float64 `json:"high"`
}

// Places are those with most losses first. Intervals are as wide as bursts make them.
func (l *Losses) Places(names packet.Names) (list []LossShare) {
	of, copies := make(map[aggregate.LossPlace]uint64), make(map[aggregate.LossPlace]uint64)
	for key, n := range l.places {
		of[key.named(names)] += n
		copies[key.named(names)] += l.copies[key]
	}
	inflation := l.batches.Inflation()
	for place, n := range of {
		n = min(n, l.Packets) // places with one name may have lost copies of one packet
		i := stats.Wilson(float64(n)/inflation, float64(l.Packets)/inflation, Confidence)
		list = append(list, LossShare{place, n, copies[place], l.Packets, float64(n) / float64(l.Packets), i.Low, i.High})
	}
	slices.SortFunc(list, func(a, b LossShare) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), comparePlaces(&a.LossPlace, &b.LossPlace))
	})
	return list
}

// named is the place as rows of losses have it.
func (k *lossKey) named(names packet.Names) aggregate.LossPlace {
	place := k.LossPlace
	place.Node, place.Port = names.NodeName(k.node), names.PortName(k.port)
	return place
}

func comparePlaces(a, b *aggregate.LossPlace) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port), cmp.Compare(a.At, b.At),
		cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Qdisc, b.Qdisc), cmp.Compare(a.Function, b.Function))
}

// LossBin is what was lost at a place in a while.
type LossBin struct {
	StartNs int64 `json:"start_ns"` // Unix time
	WidthNs int64 `json:"width_ns"`
	aggregate.LossPlace
	Packets uint64 `json:"packets"`
}

// Times are the losses over time, in order of it and then of Places. from and to are the first and the last bin in which
// packets were sent or lost.
func (l *Losses) Times(names packet.Names) (list []LossBin, from, to, width int64) {
	for l.sent.width < l.bins.width && len(l.bins.cells) > 0 {
		l.sent.widen()
	}
	for l.bins.width < l.sent.width {
		l.bins.widen()
	}
	width = l.sent.width
	from, to = l.sent.low, l.sent.high
	if len(l.bins.cells) > 0 {
		for max(to, l.bins.high)-min(from, l.bins.low) >= mostBins {
			l.sent.widen()
			l.bins.widen()
			from, to = l.sent.low, l.sent.high
		}
		from, to, width = min(from, l.bins.low), max(to, l.bins.high), l.sent.width
	}
	for i, cells := range l.bins.cells {
		of := make(map[aggregate.LossPlace]uint64)
		for key, n := range cells {
			of[key.named(names)] += *n
		}
		for place, n := range of {
			list = append(list, LossBin{i * width, width, place, n})
		}
	}
	slices.SortFunc(list, func(a, b LossBin) int {
		return cmp.Or(cmp.Compare(a.StartNs, b.StartNs), comparePlaces(&a.LossPlace, &b.LossPlace))
	})
	return list, from * width, to * width, width
}
