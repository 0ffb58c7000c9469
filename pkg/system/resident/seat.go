// SPDX-License-Identifier: Apache-2.0

package resident

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/host/statedir"
)

// ErrRunning says that the domain has a living agent.
var ErrRunning = errors.New("is running")

// Seat is the place of a domain's agent. The agent holds the lock of one file and is named by another, in the state
// directory.
type Seat struct {
	Dir   string // the domain's state directory
	Agent string // as errors call it, such as: agent of domain "red"
}

// Process is a domain's agent. The zero value stands for none.
type Process struct{ host.Process }

func (s Seat) lock() string { return filepath.Join(s.Dir, "agent.lock") }
func (s Seat) pid() string  { return filepath.Join(s.Dir, "agent.pid") }
func (s Seat) log() string  { return filepath.Join(s.Dir, "agent.log") }

// Find returns the agent: host.FindClaim. None is the zero Process. What lies in a directory that others can write to
// is not read: it names a process that gets signals.
func (s Seat) Find() (Process, error) {
	if err := statedir.CheckInRoot(s.Dir); err != nil {
		return Process{}, err
	}
	p, err := host.FindClaim(s.lock(), s.pid())
	if err != nil {
		return Process{}, fmt.Errorf("%s: %w", s.Agent, err)
	}
	return Process{p}, nil
}

// Start starts an agent in the background, by the arguments of its command, and waits until it works.
func (s Seat) Start(args ...string) (background.Started, error) {
	find := func() (host.Process, error) {
		p, err := s.Find()
		return p.Process, err
	}
	return background.Start(s.log(), find, args...)
}

// Ensure is Start, if there is no agent.
func (s Seat) Ensure(args ...string) (background.Started, error) {
	p, err := s.Find()
	if err != nil {
		return background.Started{}, err
	}
	if p.PID != 0 {
		return background.Started{PID: p.PID}, nil
	}
	return s.Start(args...)
}

// Claim makes the calling process the agent. ErrRunning: another one is. The state directory must exist.
func (s Seat) Claim() (*host.Claim, error) {
	c, err := host.NewClaim("agent", s.lock(), s.pid())
	if errors.Is(err, statedir.ErrLocked) {
		return nil, fmt.Errorf("%s %w", s.Agent, ErrRunning)
	}
	return c, err
}
