// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"strings"

	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/words"
)

// addCost adds lines to the head of "radar status -o wide".
func addCost(v *status.Cost, head *kit.Table) {
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
	case v.Why != "":
		text = "-: " + v.Why + " (as root: sysctl kernel.bpf_stats_enabled=1)"
	default:
		text = "-: nothing passed while the kernel measured (sysctl kernel.bpf_stats_enabled=1 lets it go on)"
	}
	head.Add("hooks' cost", text)
}
