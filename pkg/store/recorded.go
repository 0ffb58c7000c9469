// SPDX-License-Identifier: Apache-2.0

package store

import (
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// Recorded is a packet that reports tell of as segments keep it. It shares memory with p.
func Recorded(p *collect.Reported) segments.Packet {
	kept := segments.Packet{Packet: p.Packet}
	for i := range p.Hops {
		if said := p.INT(i); said != nil {
			if kept.INT == nil {
				kept.INT = make([]map[string]uint64, len(p.Hops))
			}
			kept.INT[i] = said
		}
	}
	if p.IsOwn() {
		r := p.Record()
		kept.ID, kept.GUID, kept.Inner, kept.Source, kept.Host = r.ID, r.GUID, r.Inner, record.EBPF, r.Host
		return kept
	}
	kept.ID, kept.Source, kept.Nodes, kept.LossHop = p.ID(), record.INT, p.Nodes(), p.LostAt()+1
	if links := p.Links(); len(links) > 0 {
		kept.Links = links
	}
	return kept
}
