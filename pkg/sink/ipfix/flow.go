// SPDX-License-Identifier: Apache-2.0

package ipfix

import (
	"math"
	"net/netip"
)

// key is what packets of one flow record have in common.
type key struct {
	src, dst, postSrc, postDst  netip.Addr
	sport, dport                uint16
	postSport, postDport        uint16
	icmp, echo                  uint16 // type and code; identifier of an echo
	proto                       uint8
	fragment, hasPorts, hasICMP bool
	nat                         bool
	node, in, out               uint32
	path                        uint64 // of all nodes and interfaces on the way up to here
}

// endReason is why a flow record ends (IANA, flowEndReason).
type endReason uint8

const (
	idleTimeout     endReason = 1
	activeTimeout   endReason = 2
	endOfFlow       endReason = 3
	forcedEnd       endReason = 4
	lackOfResources endReason = 5
)

// flow is a flow record that is being counted.
type flow struct {
	key                      key
	id                       uint64
	path                     []uint32
	tos                      uint8
	label                    uint32
	flags                    uint16
	packets, octets, dropped uint64
	first, last              int64 // Unix ns, of packets at the observation point
	delay                    delay
	closed                   bool // FIN or RST was seen
	reason                   endReason

	before, after *flow // in the cache, by when they were met last
}

// delay is of all packets of a flow whose delay is known, ns.
type delay struct{ n, sum, least, most uint64 }

// add counts n packets that took so long. A sum that is too large stays at its most.
func (d *delay) add(ns int64, n uint64) {
	if ns < 0 {
		return
	}
	took := uint64(ns)
	if d.n == 0 || took < d.least {
		d.least = took
	}
	d.most = max(d.most, took)
	d.n += n
	if all := took * n; took != 0 && all/took != n || d.sum+all < d.sum {
		d.sum = math.MaxUint64
	} else {
		d.sum += all
	}
}

func (f *flow) shape() (s shape) {
	for _, has := range []struct {
		is  bool
		bit shape
	}{
		{f.key.src.Is6(), shapeIPv6}, {f.delay.n > 0, shapeDelay}, {f.key.nat, shapeNAT},
		{f.key.hasPorts, shapePorts}, {f.key.hasICMP, shapeICMP}, {f.key.proto == protoTCP, shapeTCP},
	} {
		if has.is {
			s |= has.bit
		}
	}
	return s
}

// cache has the flows that are being counted, those that were met longest ago first.
type cache struct {
	flows        map[key]*flow
	oldest       *flow
	newest       *flow
	most         int
	active, idle int64
	settle       int64 // packets come so much later than younger ones
	clock        int64 // all packets up to here have come
	expired      func(*flow)
}

func newCache(o *Options, expired func(*flow)) *cache {
	return &cache{flows: make(map[key]*flow), most: o.MostFlows, active: int64(o.Active), idle: int64(o.Idle), settle: int64(o.Settle), expired: expired}
}

// advance ends the flows that have no packet up to a time, as far as packets of then have settled.
func (c *cache) advance(unixNs int64) {
	c.clock = max(c.clock, unixNs-c.settle)
	for c.oldest != nil && c.oldest.last < c.clock-c.idle {
		reason := idleTimeout
		if c.oldest.closed {
			reason = endOfFlow
		}
		c.end(c.oldest, reason)
	}
}

// of is the flow for a packet of that time; a flow that has lasted for too long, or whose last packet is long ago, ends
// before.
func (c *cache) of(k key, unixNs int64) (f *flow, isNew bool) {
	c.advance(unixNs)
	f = c.flows[k]
	switch {
	case f == nil:
	case unixNs-f.last > c.idle:
		c.end(f, idleTimeout)
		f = nil
	case unixNs-f.first >= c.active:
		c.end(f, activeTimeout)
		f = nil
	}
	if f != nil {
		c.unlink(f)
		c.link(f)
		return f, false
	}
	if len(c.flows) >= c.most {
		c.end(c.oldest, lackOfResources)
	}
	f = &flow{key: k, first: unixNs, last: unixNs}
	c.flows[k] = f
	c.link(f)
	return f, true
}

// end takes a flow out, and hands it on.
func (c *cache) end(f *flow, reason endReason) {
	c.unlink(f)
	delete(c.flows, f.key)
	f.reason = reason
	c.expired(f)
}

// endAll ends all flows.
func (c *cache) endAll() {
	for c.oldest != nil {
		c.end(c.oldest, forcedEnd)
	}
}

func (c *cache) link(f *flow) {
	f.before, f.after = c.newest, nil
	if c.newest == nil {
		c.oldest = f
	} else {
		c.newest.after = f
	}
	c.newest = f
}

func (c *cache) unlink(f *flow) {
	if f.before == nil {
		c.oldest = f.after
	} else {
		f.before.after = f.after
	}
	if f.after == nil {
		c.newest = f.before
	} else {
		f.after.before = f.before
	}
}
