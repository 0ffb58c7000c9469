// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/host/background"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// startAgent starts the domain's agent in the background and waits until it works.
func startAgent(name string) (background.Started, error) {
	find := func() (host.Process, error) {
		p, err := agent.Find(name)
		return p.Process, err
	}
	return background.Start(domain.File(name, "agent.log"), find, "agent", "--domain", name)
}
