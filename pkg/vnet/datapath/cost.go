// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/hook"
	"github.com/vnetradar/radar/pkg/system"
)

// HookCost is how long the programs of one kind of hook took, of all ports of a domain.
type HookCost struct {
	Hook string        `json:"hook"` // ingress, egress, kfree_skb, ...
	Runs uint64        `json:"runs"` // while the kernel measured
	Time time.Duration `json:"time_ns"`
}

// NsPerRun is the average.
func (c *HookCost) NsPerRun() float64 { return float64(c.Time) / float64(c.Runs) }

// measureTime is how long MeasureHooks lets the kernel measure.
const measureTime = 200 * time.Millisecond

// statsSwitch is where the kernel says whether it measures programs.
const statsSwitch = "/proc/sys/kernel/bpf_stats_enabled"

// MeasureHooks lets the kernel measure programs for a moment, unless it does so already. That is
// undone also if this process is killed: the kernel ends it with the descriptor.
//
// Errors: fault.Unsupported for lack of a right (CAP_SYS_ADMIN) or before Linux 5.8.
func MeasureHooks(ctx context.Context) error {
	if b, err := os.ReadFile(statsSwitch); err == nil && strings.TrimSpace(string(b)) == "1" {
		return nil
	}
	on, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		return fault.Unsupported.Errorf("let the kernel measure BPF programs: %w", err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(measureTime):
	}
	return on.Close()
}

// HookCosts returns what the domain's programs took while the kernel measured, since they were
// loaded; those that did not run then are left out.
func (h *Handle) HookCosts() ([]HookCost, error) {
	ours := make(map[ebpf.MapID]bool)
	for _, name := range []string{bpfobj.TcMapProgs, bpfobj.TcMapControl} {
		info, err := h.maps[name].Info()
		if err != nil {
			return nil, fmt.Errorf("read map %s: %w", name, err)
		}
		if id, ok := info.ID(); ok {
			ours[id] = true
		}
	}
	costs := make(map[string]*HookCost)
	var id ebpf.ProgramID
	for {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("list BPF programs: %w", err)
		}
		id = next
		if err := addCost(costs, id, ours); err != nil {
			return nil, err
		}
	}
	var list []HookCost
	for _, c := range costs {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b HookCost) int { return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Hook, b.Hook)) })
	return list, nil
}

// addCost adds what a program took if it uses one of our maps. One that ended just now is left out.
func addCost(costs map[string]*HookCost, id ebpf.ProgramID, ours map[ebpf.MapID]bool) error {
	prog, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open BPF program %d: %w", id, err)
	}
	defer prog.Close()
	info, err := prog.Info()
	if err != nil {
		return fmt.Errorf("read BPF program %d: %w", id, err)
	}
	used, _ := info.MapIDs()
	if !slices.ContainsFunc(used, func(id ebpf.MapID) bool { return ours[id] }) {
		return nil
	}
	stats, err := prog.Stats()
	if err != nil {
		return fmt.Errorf("read what BPF program %d took: %w", id, err)
	}
	if stats.RunCount == 0 {
		return nil // or it was only jumped to: its time is its caller's
	}
	at := hookName(info.Name)
	if costs[at] == nil {
		costs[at] = &HookCost{Hook: at}
	}
	costs[at].Runs += stats.RunCount
	costs[at].Time += stats.Runtime
	return nil
}

// hookName is what a program of the kernel's name hangs on.
func hookName(program string) string {
	switch program {
	case system.Backpack.Program(hook.Ingress):
		return "ingress"
	case system.Backpack.Program(hook.Egress):
		return "egress"
	}
	return strings.TrimPrefix(program, "radar_")
}

// AreMeasured reports whether the kernel measures all programs now.
func AreMeasured() bool {
	text, err := os.ReadFile(statsSwitch)
	return err == nil && strings.TrimSpace(string(text)) != "0"
}
