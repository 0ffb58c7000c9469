// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/vnetradar/radar/pkg/system"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

// keeper renews the lease and removes keys whose packets have expired.
type keeper struct {
	handle *datapath.Handle
	log    resident.Logger
}

// newKeeper renews the lease at once: an agent that takes over may be late.
func newKeeper(name string, log *slog.Logger, t *resident.Troubles) (*keeper, error) {
	h, err := openHandle(name)
	if err != nil {
		return nil, err
	}
	k := &keeper{handle: h, log: resident.Logger{Log: log, Troubles: t}}
	if err := k.renew(); err != nil && !errors.Is(err, resident.ErrDeserted) {
		h.Close()
		return nil, err
	}
	return k, nil
}

func (k *keeper) close() { k.handle.Close() }

// renew gives the sources a new lease. A domain that is being detached gets
// none: that is no error here, its detaching ends the agent. resident.ErrDeserted: no node of the domain is left.
func (k *keeper) renew() error {
	err := resident.Renew(k.handle.Lease(), k.handle.Domain.Options.Lease, k.handle.IsDeserted())
	if errors.Is(err, system.ErrDetaching) {
		return nil
	}
	return err
}

func (k *keeper) run(ctx context.Context, p *resident.Pulse) error {
	quick, rest, left := p.Quick(), resident.Rest{Pulse: p}, 0
	var swept time.Time
	var lease <-chan time.Time // nil, if the lease never ends
	if every := k.handle.RenewEvery(); every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		lease = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-lease:
			err := k.renew()
			k.log.Warn(resident.RenewLease, err)
			if resident.HasEnded(err, k.handle.Lease()) {
				return errEnd{Deserted}
			}
		case <-quick:
			if now := time.Now(); !rest.IsDue(now) && (left == 0 || now.Sub(swept) < resident.SecondEvery) {
				continue
			}
			swept = time.Now()
			var err error
			_, left, err = k.handle.SweepKeys()
			k.log.Warn("sweep keys", err)
		}
	}
}
