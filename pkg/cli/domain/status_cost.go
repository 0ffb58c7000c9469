// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/words"
)

// costView is what radar itself takes of the machine.
type costView struct {
	Agent *agentCost `json:"agent,omitempty"` // absent: none runs
	Hooks []hookCost `json:"hooks"`           // empty: the kernel has not measured them
	why   string     // why it could not
}

type agentCost struct {
	CPUNs int64   `json:"cpu_ns"` // of all cores, since it started
	Share float64 `json:"cpu_share"`
	AgeNs int64   `json:"age_ns"`
	Bytes uint64  `json:"memory_bytes"` // its own; what it has mapped of the ring is everyone's
}

type hookCost struct {
	Hook     string  `json:"hook"`
	Runs     uint64  `json:"runs"` // while the kernel measured
	NsPerRun float64 `json:"ns_per_run"`
}

// newCostView reads what there is; measure: lets the kernel measure hooks for a moment before.
func newCostView(ctx context.Context, h *datapath.Handle, process agent.Process, measure bool) (*costView, error) {
	v := &costView{Hooks: []hookCost{}}
	if process.PID != 0 {
		c, err := process.Cost()
		if err != nil && process.Alive() {
			return nil, err
		}
		if err == nil {
			v.Agent = &agentCost{int64(c.CPU), c.Share(), int64(c.Age), c.Memory}
		}
	}
	if measure {
		err := datapath.MeasureHooks(ctx)
		if err != nil && !errors.Is(err, fault.Unsupported) {
			return nil, err
		}
		if err != nil {
			v.why = kit.Face.Render(err.Error())
		}
	}
	costs, err := h.HookCosts()
	switch {
	case errors.Is(err, fs.ErrPermission): // it takes CAP_SYS_ADMIN, which nothing else here does
		v.why = err.Error()
	case err != nil:
		return nil, fmt.Errorf("read what the hooks cost: %w", err)
	}
	for i := range costs {
		v.Hooks = append(v.Hooks, hookCost{costs[i].Hook, costs[i].Runs, costs[i].NsPerRun()})
	}
	return v, nil
}

// addTo adds lines to the head of "radar status -o wide".
func (v *costView) addTo(head *kit.Table) {
	if v == nil {
		return
	}
	text := "-"
	if v.Agent != nil {
		text = fmt.Sprintf("%.1f %% of one core since it started, %.1f MiB", 100*v.Agent.Share, float64(v.Agent.Bytes)/(1<<20))
	}
	head.Add("agent's cost", text)
	var parts []string
	for _, h := range v.Hooks {
		parts = append(parts, fmt.Sprintf("%s %s (%d runs)", h.Hook, words.Duration(h.NsPerRun), h.Runs))
	}
	switch {
	case len(parts) > 0:
		text = strings.Join(parts, ", ")
	case v.why != "":
		text = "-: " + v.why + " (as root: sysctl kernel.bpf_stats_enabled=1)"
	default:
		text = "-: nothing passed while the kernel measured (sysctl kernel.bpf_stats_enabled=1 lets it go on)"
	}
	head.Add("hooks' cost", text)
}
