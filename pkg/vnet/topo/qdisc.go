// SPDX-License-Identifier: Apache-2.0

package topo

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/host"
)

// Qdisc is the root queueing discipline of an interface as it is now.
type Qdisc struct {
	Kind       string `json:"kind"`
	RateBps    uint64 `json:"rate_bps,omitempty"`    // of tbf, bits/s; 0: none, or another kind
	BurstBytes uint64 `json:"burst_bytes,omitempty"` // of tbf: it refuses frames that are longer, however empty it is
}

// Qdiscs returns the root queueing disciplines of the node's interfaces, by their names. It takes the right to enter
// the namespace. ErrGone: the namespace is gone.
func (s NodeSpec) Qdiscs() (map[string]Qdisc, error) {
	handle, links, err := s.Links()
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	list := make(map[string]Qdisc)
	for _, l := range links {
		all, err := host.RetryDump(func() ([]netlink.Qdisc, error) { return handle.QdiscList(l) })
		if err != nil {
			return nil, fmt.Errorf("node %s: list queueing disciplines of %s: %w", s.Name, l.Attrs().Name, err)
		}
		for _, q := range all {
			if q.Attrs().Parent != netlink.HANDLE_ROOT {
				continue
			}
			now := Qdisc{Kind: q.Type()}
			if t, ok := q.(*netlink.Tbf); ok {
				now.RateBps, now.BurstBytes = t.Rate*8, bytesIn(t.Rate, t.Buffer)
			}
			list[l.Attrs().Name] = now
		}
	}
	return list, nil
}

// tick is how long one of the scheduler's is, ns.
const tick = 64

// bytesIn is how much passes in so many ticks, at a rate of bytes/s.
func bytesIn(rate uint64, ticks uint32) uint64 { return rate * uint64(ticks) / (1e9 / tick) }
