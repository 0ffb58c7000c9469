// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/answer/placenow"
	"github.com/vnetradar/radar/pkg/answer/story"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Stories tell of packets of the ring.
func (r *Ring) Stories(ctx context.Context, found []*backpack.Found, now time.Time) ([]*story.Story, []Note, error) {
	outers, err := r.outers(found)
	if err != nil {
		return nil, nil, err
	}
	links := placenow.NewLinks(ctx, r.Domain)
	stories := story.All(found, r.Domain, outers, links, now)
	return stories, SilentNodes(links), nil
}

// outers returns, by the ID of the packet inside, the packets into which tunnels put
// the found ones. It looks through the ring, and only where there are tunnels.
func (r *Ring) outers(found []*backpack.Found) (map[string][]record.Record, error) {
	outers := make(map[string][]record.Record)
	if !slices.ContainsFunc(r.Domain.Ports, func(p domain.Port) bool { return p.Tunnel }) {
		return outers, nil
	}
	wanted := make(map[string]bool)
	for _, f := range found {
		wanted[f.Record.ID] = true
	}
	around := backpack.Select{Match: func(p *packet.Packet, _ packet.Scope) bool {
		return p.Inner != 0 && wanted[backpack.Position{Epoch: r.Domain.Epoch, Pos: p.Inner}.ID()]
	}}
	list, _, err := backpack.Scan(r.Maps, r.Decoder, backpack.ScanOptions{Select: around})
	if err != nil {
		return nil, fmt.Errorf("look for the packets around it: %w", err)
	}
	for _, o := range list {
		outers[o.Inner] = append(outers[o.Inner], o)
	}
	return outers, nil
}
