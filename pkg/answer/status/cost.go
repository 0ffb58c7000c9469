// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

// Cost is what radar itself takes of the machine.
type Cost struct {
	Agent *AgentCost `json:"agent,omitempty"` // absent: none runs
	Hooks []HookCost `json:"hooks"`           // empty: the kernel has not measured them
	Why   string     `json:"-"`               // why it could not
}

// AgentCost is what the agent costs.
type AgentCost struct {
	CPUNs int64   `json:"cpu_ns"` // of all cores, since it started
	Share float64 `json:"cpu_share"`
	AgeNs int64   `json:"age_ns"`
	Bytes uint64  `json:"memory_bytes"` // its own; what it has mapped of the ring is everyone's
}

// HookCost is what the runs of a hook cost.
type HookCost struct {
	Hook     string  `json:"hook"`
	Runs     uint64  `json:"runs"` // while the kernel measured
	NsPerRun float64 `json:"ns_per_run"`
}

// costOf reads what there is; measure: lets the kernel measure hooks for a moment before.
func costOf(ctx context.Context, face fault.Face, h *datapath.Handle, process agent.Process, measure bool) (*Cost, error) {
	v := &Cost{Hooks: []HookCost{}}
	if process.PID != 0 {
		c, err := process.Cost()
		if err != nil && process.Alive() {
			return nil, err
		}
		if err == nil {
			v.Agent = &AgentCost{int64(c.CPU), c.Share(), int64(c.Age), c.Memory}
		}
	}
	if measure {
		err := datapath.MeasureHooks(ctx)
		if err != nil && !errors.Is(err, fault.Unsupported) {
			return nil, err
		}
		if err != nil {
			v.Why = face.Render(err.Error())
		}
	}
	costs, err := h.HookCosts()
	switch {
	case errors.Is(err, fs.ErrPermission): // it takes CAP_SYS_ADMIN, which nothing else here does
		v.Why = err.Error()
	case err != nil:
		return nil, fmt.Errorf("read what the hooks cost: %w", err)
	}
	for i := range costs {
		v.Hooks = append(v.Hooks, HookCost{costs[i].Hook, costs[i].Runs, costs[i].NsPerRun()})
	}
	return v, nil
}
