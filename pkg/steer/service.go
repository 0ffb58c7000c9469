// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/send"
)

// Service is the process in the background.
type Service struct {
	Running    bool   `json:"running"`    // it lives
	Wanted     bool   `json:"wanted"`     // and is to
	PID        int    `json:"pid"`        // 0: none
	Generation uint64 `json:"generation"` // of what is wanted
	Applied    uint64 `json:"applied"`    // and of what all devices hold
	Holds      bool   `json:"holds"`      // devices may hold something of INT
}

// Service returns the state of the service that keeps devices at the intents.
func (m *Management) Service() (s Service, err error) {
	w, err := m.store.Wanted()
	if err != nil {
		return s, err
	}
	st, err := m.store.Status()
	if err != nil {
		return s, err
	}
	p, err := m.store.FindService()
	if err != nil {
		return s, err
	}
	return Service{p.PID != 0, w.Running, p.PID, w.Generation, st.Applied, st.Holds()}, nil
}

// ErrNoTopology says that nobody has said what the domain is made of.
var ErrNoTopology = errors.New("no device is known")

// Start makes INT wanted, and starts the service if it does not live. It returns when that works.
func (m *Management) Start(ctx context.Context) (Service, error) {
	w, err := m.store.Wanted()
	if err != nil {
		return Service{}, err
	}
	if !slices.ContainsFunc(w.Topology.Nodes, func(n control.TopologyNode) bool { return n.IsDevice() }) {
		return Service{}, fmt.Errorf("INT domain %s: %w: say what it is made of («int topology set»)", m.Name(), ErrNoTopology)
	}
	if _, err := m.store.Change(func(w *control.Wanted) error { w.Running, w.Abandon = true, false; return nil }); err != nil {
		return Service{}, err
	}
	if err := m.live(ctx); err != nil {
		return Service{}, err
	}
	return m.Service()
}

// live starts the service if it does not live. One that is about to end is waited for.
func (m *Management) live(ctx context.Context) error {
	for {
		p, err := m.store.FindService()
		if err != nil {
			return err
		}
		if p.PID == 0 {
			_, err = background.Start(m.store.LogPath(), m.store.FindService, "int", "service", background.Domain, m.Name())
			return err
		}
		st, err := m.store.Status()
		if err != nil {
			return err
		}
		w, err := m.store.Wanted()
		if err != nil {
			return err
		}
		if st.PID == p.PID && st.Seen == w.Generation {
			return nil // it has read what is wanted, and does not end for what was before
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// mostStarts is how often Stop starts a service that ends before all is off.
const mostStarts = 5

// Stop takes INT off all devices, in the order in which no packet leaves with it, and ends the service.
// It returns when that is done. If ctx ends before, the service goes on with it; the error says which
// devices it waits for. force: those that cannot be reached are left as they are.
func (m *Management) Stop(ctx context.Context, force bool) error {
	w, err := m.store.Wanted()
	if err != nil {
		return err
	}
	if w.Running || force && !w.Abandon {
		if _, err := m.store.Change(func(w *control.Wanted) error { w.Running, w.Abandon = false, force; return nil }); err != nil {
			return err
		}
	}
	for started := 0; ; {
		s, err := m.Service()
		if err != nil {
			return err
		}
		if !s.Running && !s.Holds {
			return nil
		}
		if !s.Running {
			if started++; started > mostStarts {
				return fmt.Errorf("the service of INT domain %s ends again and again: its log is %s", m.Name(), m.store.LogPath())
			}
			if err := m.live(ctx); err != nil {
				return errors.Join(err, m.waits())
			}
		}
		if err := pause(ctx); err != nil {
			return errors.Join(m.waits(), err)
		}
	}
}

// waits says which devices still hold something.
func (m *Management) waits() error {
	st, err := m.store.Status()
	if err != nil {
		return err
	}
	var list []string
	for _, d := range st.Devices {
		if d.State != control.Off {
			text := d.Name + " is " + string(d.State)
			if d.Error != "" {
				text += " (" + d.Error + ")"
			}
			list = append(list, text)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return fmt.Errorf("INT is not off yet: %s; the service goes on («int stop ‹force›» leaves what cannot be reached as it is)", strings.Join(list, ", "))
}

// Serve is the service: it works until ctx ends, which leaves devices as they are, or until INT is not
// wanted any more and is off all devices. ready is called once it works. ErrRunning: there is one.
func (m *Management) Serve(ctx context.Context, log *slog.Logger, ready func()) error {
	claim, err := m.store.Claim()
	if errors.Is(err, statedir.ErrLocked) {
		return ErrRunning
	}
	if err != nil {
		return err
	}
	defer claim.Release()
	s := &control.Service{Store: m.store, Drivers: drivers(m.Name()), Resolve: Resolve, Log: log}
	return s.Run(ctx, ready)
}

// ErrRunning says that the INT domain has a service.
var ErrRunning = errors.New("the service of the INT domain is running")

// Resolve finds the address of a collector, HOST:PORT; of a name with several the first.
func Resolve(ctx context.Context, text string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return netip.AddrPort{}, err
	}
	addr, err := send.FindHost(ctx, host)
	if err == nil {
		err = send.CheckAddress(addr)
	}
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("collector %s: %w", text, err)
	}
	return netip.ParseAddrPort(net.JoinHostPort(addr.String(), port))
}
