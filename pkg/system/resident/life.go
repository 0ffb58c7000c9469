// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system"
)

// Life is what a process has that is a domain's agent: nobody else is, and every radar on the machine knows that the domain is kept.
type Life struct {
	Troubles *Troubles
	claim    *host.Claim
	pins     *os.File // held
}

// Take makes the calling process the agent of the domain, which is attached. ErrRunning: there is one; system.ErrHalfAttached: its
// pins are gone. The caller closes it.
func (s Seat) Take() (_ *Life, err error) {
	l := &Life{}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if l.Troubles, err = NewTroubles(); err != nil {
		return nil, err
	}
	if l.claim, err = s.Claim(); err != nil {
		return nil, err
	}
	l.pins, err = s.Kind.Kept(s.Domain).Hold()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.Kind.Half(s.Domain, "its description is in "+s.Kind.Dir(s.Domain)+", its programs are gone from "+s.Kind.PinDir(s.Domain))
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Logger is one for a goroutine, whose errors others can read.
func (l *Life) Logger(log *slog.Logger) Logger { return Logger{Log: log, Troubles: l.Troubles} }

// Unname keeps others from asking the process to hand over. It stays the agent.
func (l *Life) Unname() { l.claim.Unname() }

// Close gives the domain free for another agent. Of none it does nothing.
func (l *Life) Close() {
	if l == nil {
		return
	}
	l.Troubles.Close()
	if l.pins != nil {
		l.pins.Close()
	}
	if l.claim != nil {
		l.claim.Release()
	}
}

// Renew renews the lease of a domain for so long (0: for ever), unless all of its ports are gone: ErrDeserted. system.ErrDetaching:
// another process takes it off, which ends the agent.
func Renew(lease system.Lease, life time.Duration, isDeserted bool) error {
	if life > 0 && isDeserted {
		return ErrDeserted
	}
	return lease.Renew(life)
}
