// SPDX-License-Identifier: Apache-2.0

package stats

import "math"

// EventTest is the two-sided p-value that events are as frequent in two runs: Fisher's exact test of how many there are
// among all things. An event is a burst that a new connection is in, so it counts once, however long it is, and several
// bursts of one connection count once. How much a share varies, on which Compare depends, need not be estimated then: a
// run has too few bursts to tell that well. The share must differ the same way; else the events say nothing of it.
func (b *Batches) EventTest(o *Batches) float64 {
	x, swarmX := b.events()
	y, swarmY := o.events()
	if b.N == 0 || o.N == 0 || (y/o.N-x/b.N)*(o.K/o.N-b.K/b.N) <= 0 {
		return 1
	}
	swarm := max(swarmX, swarmY)
	return fisher(math.Floor(x/swarm), b.N, math.Floor(y/swarm), o.N)
}

// CompareBursts is Compare, or EventTest, whichever says more, at the price of two tests.
func (b *Batches) CompareBursts(o *Batches) float64 {
	return min(1, 2*min(b.Compare(o), b.EventTest(o)))
}

// eventParts is how many parts of a run tell whether events come in swarms.
const eventParts = 12

// events is how many there were, and how much more their number varies as they come in swarms. Batches with things of the kind are one burst
// unless more than the time lies between them for which batches are alike.
func (b *Batches) events() (n, swarm float64) {
	list := append(append([]batch{}, b.list...), b.inLast)
	residuals, firsts := make([]float64, len(list)), 0.0
	for _, one := range list {
		firsts += one.firsts
	}
	for i, one := range list {
		residuals[i] = one.firsts - firsts/max(1, b.N)*one.n
	}
	gap := int(math.Ceil(likeness(residuals)))
	parts, last, counted := make([]batch, min(eventParts, len(list))), -gap-1, false
	for i, one := range list {
		part := &parts[i*len(parts)/len(list)]
		part.n++
		if one.k == 0 {
			continue
		}
		if i-last > gap {
			counted = false
		}
		if last = i; one.firsts > 0 && !counted {
			counted = true
			part.k++
			n++
		}
	}
	if n == 0 || len(parts) < 2 {
		return n, 1
	}
	spread, of := 0.0, n/float64(len(list))
	for i := range parts {
		parts[i].k -= of * parts[i].n
		spread += parts[i].k * parts[i].k / (of * parts[i].n)
		residuals[i] = parts[i].k
	}
	return n, max(1, spread/float64(len(parts)-1)*likeness(residuals[:len(parts)]))
}

// AddFirst counts n of the kind, which are the first ones of a connection.
func (b *Batches) AddFirst(n uint64) {
	if n > 0 {
		b.inLast.firsts++
		b.Add(true, n)
	}
}

// TailTest is the two-sided p-value that a high quantile of two series differs by no more than least: QuantileTest, or
// EventTest of the values above a limit halfway between both quantiles, whichever says more, at the price of two tests.
// The limit is the same whichever run is the first one. That of the lower run is no limit for events: it has as many
// short ones there as the other one has long ones.
func TailTest(a, b *Series, q, least float64) float64 {
	low, high := a, b
	from, to := Quantile(Sorted(a.Values), q), Quantile(Sorted(b.Values), q)
	if from > to {
		low, high, from, to = b, a, to, from
	}
	if to -= least; to <= from {
		return 1
	}
	limit := (from + to) / 2
	if from > 0 {
		limit = math.Sqrt(from * to)
	}
	return min(1, 2*min(QuantileTest(a.Values, b.Values, q, least), low.above(limit).EventTest(high.above(limit+least))))
}

// above are values above a limit.
func (s *Series) above(limit float64) *Batches {
	b, seen := &Batches{}, make(map[uint32]bool)
	for i, v := range s.Values {
		of := s.of[i]
		if v > limit && !(of > 0 && seen[of]) {
			seen[of] = true
			b.AddFirst(1)
			continue
		}
		b.Add(v > limit, 1)
	}
	return b
}
