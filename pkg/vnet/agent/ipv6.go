// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"time"

	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

const (
	// The verifier's work is not done again soon where the kernel has refused the programs.
	ipv6Again = time.Minute
)

// ipv6 loads the programs for IPv6 when the domain needs them: a node has an address, or a packet has come, from
// outside or by link-local addresses.
type ipv6 struct {
	handle *datapath.Handle
	wide   <-chan struct{} // a node has an address
	log    *slog.Logger
	once   resident.Logger
}

func newIPv6(name string, log *slog.Logger, t *resident.Troubles, wide <-chan struct{}) (*ipv6, error) {
	h, err := openHandle(name)
	if err != nil {
		return nil, err
	}
	return &ipv6{handle: h, wide: wide, log: log, once: resident.Logger{Log: log, Troubles: t}}, nil
}

func (p *ipv6) close() { p.handle.Close() }

// run ends when the programs are there: they stay.
func (p *ipv6) run(ctx context.Context, wakes *resident.Pulse) error {
	quick := wakes.Quick()
	var refused time.Time
	needed := ""
	for p.handle.IPv6Held() {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wide:
			needed = "a node has an IPv6 address"
		case <-quick:
			missed, err := p.handle.MissesIPv6()
			p.once.Warn("see whether IPv6 packets come", err)
			if missed {
				needed = "an IPv6 packet has come"
			}
		}
		if needed == "" || time.Since(refused) < ipv6Again {
			continue
		}
		err := p.handle.LoadIPv6()
		p.once.Warn("measure IPv6", err)
		if err != nil {
			refused = time.Now()
			continue
		}
		p.log.Info("IPv6 is measured from now on", "because", needed)
	}
	return nil
}
