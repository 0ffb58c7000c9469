// SPDX-License-Identifier: Apache-2.0

package live

import (
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/topology"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Load is what a domain carried in about one second: of the packets that ended in it.
type Load struct {
	TNs     int64  `json:"t_ns" doc:"end of the span, Unix time"`
	SpanNs  int64  `json:"span_ns"`
	Packets uint64 `json:"packets" doc:"that ended in the span"`
	Bytes   uint64 `json:"bytes"`
	Lost    uint64 `json:"lost" doc:"lost or expired"`
	Unread  uint64 `json:"unread,omitempty" doc:"overwritten before they could be read: they are in no number here"`

	Links []LinkLoad `json:"links" doc:"those on which something happened"`
	Nodes []NodeLoad `json:"nodes" doc:"those in which something happened"`
	Paths []PathLoad `json:"paths" doc:"those with most packets"`
	// Notes are said again in each Load: who comes later is to know it, too.
	Notes []Note `json:"notes,omitempty" doc:"why nothing more may be measured, as the command line says it"`
	// Unsent is the last field: it is another one for each stream, see Stream.load.
	Unsent uint64 `json:"unsent" doc:"packets that matched and were not sent as events, because of rate"`
}

// Note is in words what keeps a domain from being measured.
type Note struct {
	Kind string `json:"kind" doc:"no_agent, agent_fails, disk_full or no_nodes"`
	Text string `json:"text"`
}

// LinkLoad is one direction of a link.
type LinkLoad struct {
	From       string `json:"from" doc:"NODE/PORT, 'bridge NODE/BRIDGE' or 'outside'"`
	To         string `json:"to"`
	Packets    uint64 `json:"packets"`
	Bytes      uint64 `json:"bytes"`
	P50Ns      *int64 `json:"p50_ns,omitempty"`
	P99Ns      *int64 `json:"p99_ns,omitempty"`
	QueueP50Ns *int64 `json:"queue_p50_ns,omitempty"`
	Lost       uint64 `json:"lost" doc:"lost or expired there"`
}

// NodeLoad is one node.
type NodeLoad struct {
	Name    string `json:"name"`
	Packets uint64 `json:"packets" doc:"visits"`
	P50Ns   *int64 `json:"p50_ns,omitempty"`
	P99Ns   *int64 `json:"p99_ns,omitempty"`
	Lost    uint64 `json:"lost" doc:"lost or expired inside"`
}

// PathLoad is one path.
type PathLoad struct {
	Hops    []string `json:"hops" doc:"names of nodes"`
	Packets uint64   `json:"packets"`
}

// mostPaths is how many a Load has.
const mostPaths = 256

// newLoad is what was counted until now. The domain's links are those of d.
func newLoad(sums *aggregate.Aggregates, dec *backpack.Decoder, d *domain.Domain, now time.Time, span time.Duration) *Load {
	c := answer.NewCounts(sums, dec)
	t := topology.New(d)
	t.AddLoad(c)
	total := c.Totals()
	l := &Load{
		TNs: now.UnixNano(), SpanNs: int64(span), Packets: total.Packets, Bytes: total.Bytes, Lost: total.Lost + total.Expired,
		Links: []LinkLoad{}, Nodes: []NodeLoad{}, Paths: []PathLoad{},
	}
	for i := range t.Links {
		for _, of := range t.Links[i].Load {
			if of.Packets+of.Lost+of.Expired > 0 {
				l.Links = append(l.Links, LinkLoad{of.From, of.To, of.Packets, of.Bytes, of.P50Ns, of.P99Ns, of.QueueNs, of.Lost + of.Expired})
			}
		}
	}
	for i := range t.Nodes {
		if of := t.Nodes[i].Load; of.Packets+of.Lost+of.Expired > 0 {
			l.Nodes = append(l.Nodes, NodeLoad{t.Nodes[i].Name, of.Packets, of.P50Ns, of.P99Ns, of.Lost + of.Expired})
		}
	}
	for _, row := range c.Paths().List {
		if len(l.Paths) == mostPaths {
			break
		}
		hops := make([]string, len(row.Hops))
		for i := range row.Hops {
			hops[i] = row.Hops[i].Node
		}
		l.Paths = append(l.Paths, PathLoad{hops, row.Packets})
	}
	return l
}
