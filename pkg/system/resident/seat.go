// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/system"
)

// ErrRunning says that the domain has a living agent.
var ErrRunning = errors.New("is running")

// Seat is the place of a domain's agent. The agent holds the lock of one file and is named by another, in the state
// directory. Its command is that of the kind, and "agent".
type Seat struct {
	Kind   system.Kind
	Domain string
}

// Process is a domain's agent. The zero value stands for none.
type Process struct{ host.Process }

func (s Seat) lock() string { return s.Kind.File(s.Domain, "agent.lock") }
func (s Seat) pid() string  { return s.Kind.File(s.Domain, "agent.pid") }
func (s Seat) log() string  { return s.Kind.File(s.Domain, "agent.log") }
func (s Seat) name() string { return "the agent of " + s.Kind.Kept(s.Domain).Title }

// Find returns the agent: host.FindClaim. None is the zero Process. What lies in a directory that others can write to
// is not read: it names a process that gets signals.
func (s Seat) Find() (Process, error) {
	if err := statedir.CheckInRoot(s.Kind.Dir(s.Domain)); err != nil {
		return Process{}, err
	}
	p, err := host.FindClaim(s.lock(), s.pid())
	if err != nil {
		return Process{}, fmt.Errorf("%s: %w", s.name(), err)
	}
	return Process{p}, nil
}

// Start starts an agent in the background, and waits until it works.
func (s Seat) Start() (background.Started, error) {
	find := func() (host.Process, error) {
		p, err := s.Find()
		return p.Process, err
	}
	return background.Start(s.log(), find, append(strings.Fields(s.Kind.Command), "agent", background.Domain, s.Domain)...)
}

// Ensure is Start, if there is no agent.
func (s Seat) Ensure() (background.Started, error) {
	p, err := s.Find()
	if err != nil {
		return background.Started{}, err
	}
	if p.PID != 0 {
		return background.Started{PID: p.PID}, nil
	}
	return s.Start()
}

// endTime is how long an agent may take to end by itself.
const endTime = 5 * time.Second

// End ends the agent, if there is one.
func (s Seat) End(ctx context.Context) error {
	p, err := s.Find()
	if err != nil || p.PID == 0 {
		return err
	}
	return p.End(ctx, s.name(), endTime, unix.SIGTERM, unix.SIGKILL)
}

// Claim makes the calling process the agent. ErrRunning: another one is. The state directory must exist.
func (s Seat) Claim() (*host.Claim, error) {
	c, err := host.NewClaim("agent", s.lock(), s.pid())
	if errors.Is(err, statedir.ErrLocked) {
		return nil, fmt.Errorf("%s %w", s.name(), ErrRunning)
	}
	return c, err
}
