// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/statedir"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// HandOver is the signal that asks an agent to write its snapshot and to end
// without detaching: whoever sends it goes on from there.
const HandOver = unix.SIGUSR2

// Process is a domain's agent. The zero value stands for none.
type Process struct{ host.Process }

// Find returns the agent of the domain: host.FindClaim. None is the zero Process.
func Find(name string) (Process, error) {
	if err := statedir.CheckInRoot(domain.Dir(name)); err != nil {
		return Process{}, err
	}
	p, err := host.FindClaim(domain.File(name, lockFile), domain.File(name, pidFile))
	if err != nil {
		return Process{}, fmt.Errorf("agent of domain %q: %w", name, err)
	}
	return Process{p}, nil
}

// Stop asks the process to hand over and waits for its end; after patience it
// is killed, which harms neither traffic nor what the ring holds.
func (p Process) Stop(ctx context.Context, patience time.Duration) error {
	return p.End(ctx, "agent", patience, HandOver, unix.SIGKILL)
}

// ErrRunning says that the domain has a living agent.
var ErrRunning = errors.New("the domain's agent is running")

// The agent of a domain holds the lock of the one file and is named by the other, in the state
// directory.
const (
	lockFile = "agent.lock"
	pidFile  = "agent.pid"
)

// newClaim makes the calling process the domain's agent. It returns ErrRunning if another process
// is. The domain's state directory must exist.
func newClaim(name string) (*host.Claim, error) {
	c, err := host.NewClaim("agent", domain.File(name, lockFile), domain.File(name, pidFile))
	if errors.Is(err, statedir.ErrLocked) {
		return nil, ErrRunning
	}
	return c, err
}
