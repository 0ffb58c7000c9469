// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"math"
	"net"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// FastPath is what a fast path does beside giving packets to Collector.AddUp: it takes reports
// that fit a template, see Template.
type FastPath interface {
	// Taken returns the last packet of those that the path has taken by the key's template since
	// the last call, and how many those were. The packet is valid until the next call.
	Taken(key uint64) (last Packet, n uint64, err error)
	// Install makes t the key's template: p is the packet that it was made of, number what came
	// with it. It keeps neither t nor p's memory.
	Install(key, number uint64, p Packet, t *Template) error
	// Remove removes the key's template.
	Remove(key uint64) error
	// SetBand sets a shared band, of which the highest value is 32 bits.
	SetBand(index uint32, lo, hi uint32) error
	// About fills in what the path knows itself: all but FastPath.
	About(*FastInfo)
}

// Use lets the collector make templates for a fast path. It comes before the first packet.
func (c *Collector) Use(path FastPath) {
	c.path, c.gaps.wide = path, true
	c.engine.Moved = func(index uint32, b metrics.Band) {
		lo, hi := b.Lo, min(b.Hi, math.MaxUint32)
		if lo > hi { // nothing fits: all ones are no value
			lo, hi = math.MaxUint32, math.MaxUint32
		}
		if err := path.SetBand(index, uint32(lo), uint32(hi)); c.failed == nil && !c.closed {
			c.failed = err
		}
	}
}

// AddUp is Add for a packet that came by a fast path under a key, with a number.
func (c *Collector) AddUp(p Packet, key, number uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if !c.allows(p) { // which the fast path has asked already: without a template either way
		return nil
	}
	if err := c.account(key); err != nil {
		return err
	}
	bugs := c.store.Info().Bugs
	t, err := c.add(p)
	if err == nil && t != nil {
		err = c.path.Install(key, number, p, t)
	}
	if c.store.Info().Bugs != bugs { // of what the key's template was made, not all may be known any longer
		err = errors.Join(err, c.path.Remove(key))
	}
	return errors.Join(err, c.failed)
}

// Account takes what the fast path has taken under a key.
func (c *Collector) Account(key uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.account(key)
}

func (c *Collector) account(key uint64) error {
	last, n, err := c.path.Taken(key)
	if err != nil || n == 0 {
		return err
	}
	c.taken += n
	known := false
	if !c.guard(last, func() { known = c.same(last, n) }) || !known {
		return errors.Join(c.failed, c.path.Remove(key))
	}
	return c.failed
}

// same takes n reports that fitted a template, of which it knows the last. known is false if the key
// must have no template.
func (c *Collector) same(last Packet, n uint64) (known bool) {
	c.report.HasFlow, c.report.Hops = false, c.report.Hops[:0]
	if last.At.After(c.newest) {
		c.newest = last.At
	}
	counts := &c.translator.Counts
	counts.Packets += n - 1
	m := c.translator.Decode(last)
	if m == nil { // it has fitted a report's template
		counts.Rejected += n - 1
		return false
	}
	counts.Reports += n - 1
	if len(m.Anomalies) > 0 {
		counts.Anomalous += n - 1
	}
	c.gaps.addMany(m, n)
	known = true
	c.translator.Observe(m, func(o *Observed) {
		c.translator.measured(o, &c.report, last.At)
		if c.engine.Same(&c.report, n-1) {
			c.engine.Same(&c.report, 1)
			return
		}
		known = false // what nobody had reported for long, until now
		c.engine.Add(&c.report, c.Changed)
	})
	return known
}
