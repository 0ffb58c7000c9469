// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// chooseIPv6 decides for a new domain how IPv6 is measured, and says what follows from
// that. A domain that exists keeps its way; what new nodes bring is told.
func (p *plan) chooseIPv6(ctx context.Context, d *domain.Domain) error {
	o := &d.Options
	if o.IPv6 == program.IPv6Key || o.IPv6 == program.IPv6Off {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, conflictTime)
	defer cancel()
	users := labelUsers(p.result.Topology.FindLabelHashes(ctx, merge.HeaderNodes(d)))
	if o.IPv6 == program.IPv6Auto {
		o.IPv6 = program.IPv6Label
		if len(users) > 0 {
			o.IPv6, o.LabelUsers = program.IPv6Key, users
			p.warn(fmt.Sprintf("IPv6 is found by key, its header bits stay as they are: the flow label is used by %s", strings.Join(users, ", ")))
		}
		return p.blueprint.SetIPv6(o.IPv6)
	}
	if len(users) > 0 {
		p.warn(fmt.Sprintf("packets of one IPv6 flow are taken for many flows, because radar rewrites the flow label, which is used by %s: detach, and attach with ‹ipv6› key", strings.Join(users, ", ")))
	}
	return nil
}

func (p *plan) warn(text string) { p.result.Warnings = append(p.result.Warnings, text) }

// maxUsers bounds how many of those that hash on the label are named.
const maxUsers = 5

func labelUsers(hashes []topo.LabelHash) []string {
	var users []string
	for i, h := range hashes {
		if i == maxUsers {
			return append(users, fmt.Sprintf("and %d more", len(hashes)-maxUsers))
		}
		users = append(users, h.String())
	}
	return users
}
