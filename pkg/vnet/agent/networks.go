// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/selector"
)

// networks asks Docker what it calls the networks whose bridges the domain is closed around. It does
// so beside everything else: what restores packets at a new bridge must not wait for an engine.
type networks struct {
	name string
	log  *slog.Logger
	once resident.Logger
	file statedir.Stamp    // of the description that was looked at
	seen map[uint16]string // bridges that were asked about, by port
}

func newNetworks(name string, log *slog.Logger) *networks {
	return &networks{name: name, log: log, once: resident.Logger{Log: log}}
}

func (n *networks) run(ctx context.Context, p *resident.Pulse) error {
	second := p.Second()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-second:
			n.look(ctx)
		}
	}
}

// look asks about bridges if there are others than before. Those of which the engine knows nothing
// are not asked about again until then.
func (n *networks) look(ctx context.Context) {
	_ = n.file.IfChanged(domain.File(n.name, domain.Description), func() error {
		d, err := domain.Load(n.name)
		if err == nil {
			n.ask(ctx, d)
		}
		return err // the loop that follows the ring notices a domain that is gone
	})
}

func (n *networks) ask(ctx context.Context, d *domain.Domain) {
	bridges := make(map[uint16]string)
	for _, p := range d.Ports {
		if !p.Removed && p.Place == domain.Bridge {
			bridges[p.ID] = p.Name
		}
	}
	if maps.Equal(bridges, n.seen) {
		return
	}
	n.seen = bridges
	names := selector.NameNetworks(ctx, d)
	if len(names) == 0 {
		return
	}
	changed, err := datapath.SetNetworks(n.name, names)
	if errors.Is(err, domain.ErrNotAttached) {
		return
	}
	n.once.Warn("note the names of networks", err)
	if changed {
		n.log.Info("bridges are networks of Docker", "networks", slices.Sorted(maps.Values(names)))
	}
}
