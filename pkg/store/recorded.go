// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// fields are those of INT, in the order of their names.
var fields = func() (list []namedField) {
	for f := range intwire.NumFields {
		list = append(list, namedField{f, f.String()})
	}
	slices.SortFunc(list, func(a, b namedField) int { return strings.Compare(a.name, b.name) })
	return list
}()

type namedField struct {
	field intwire.Field
	name  string
}

// saidAt is what the node at a hop has said.
func saidAt(p *collect.Reported, hop int) (said segments.Said) {
	if hop >= len(p.Said) || p.Said[hop].Has == 0 {
		return nil
	}
	said = make(segments.Said, 0, bits.OnesCount64(uint64(p.Said[hop].Has)))
	for _, f := range fields {
		if value, ok := p.Said[hop].Get(f.field); ok {
			said = append(said, segments.Value{Name: f.name, Value: value})
		}
	}
	return said
}

// Recorded is a packet that reports tell of as segments keep it. It shares memory with p.
func Recorded(p *collect.Reported) segments.Packet {
	kept := segments.Packet{Packet: p.Packet}
	for i := range p.Hops {
		if said := saidAt(p, i); said != nil {
			if kept.INT == nil {
				kept.INT = make([]segments.Said, len(p.Hops))
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
