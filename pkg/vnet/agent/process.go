// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// HandOver is the signal that asks an agent to write its snapshot and to end
// without detaching: whoever sends it goes on from there.
const HandOver = unix.SIGUSR2

// Process is a domain's agent. The zero value stands for none.
type Process struct{ resident.Process }

func seat(name string) resident.Seat {
	return resident.Seat{Kind: domain.Kind, Domain: name}
}

// Find returns the agent of the domain. None is the zero Process.
func Find(name string) (Process, error) {
	p, err := seat(name).Find()
	return Process{p}, err
}

// Start starts the domain's agent in the background and waits until it works.
func Start(name string) (background.Started, error) {
	return seat(name).Start()
}

// Stop asks the process to hand over and waits for its end; after patience it
// is killed, which harms neither traffic nor what the ring holds.
func (p Process) Stop(ctx context.Context, patience time.Duration) error {
	return p.End(ctx, "agent", patience, HandOver, unix.SIGKILL)
}
