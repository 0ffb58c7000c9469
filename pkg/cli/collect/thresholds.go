// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// metricFlags are the flags of "radar collect" about metrics.
type metricFlags struct {
	thresholds []string
	congested  uint64
	flows      kit.Count
	series     kit.Count
	age        time.Duration
}

func (f *metricFlags) register(cmd *cobra.Command) {
	d := metrics.DefaultConfig()
	f.flows, f.series = kit.Count(d.Flows), kit.Count(d.Series)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.thresholds, "threshold", nil, "how far a value must be from the one reported last to be an event, METRIC=10%, =5us, =100, or =10%,100us: a share, and no less than that; METRIC all stands for all (default all=10%, of latencies 10%,100us)")
	flags.Uint64Var(&f.congested, "congested", 0, "occupancy above which a queue is congested, until it is below half of that (0: only where reports say it)")
	flags.Var(&f.flows, "flows", "flows of which there are metrics; nodes of flows: four times that")
	flags.Var(&f.series, "series", "queues of which there are metrics and events, and as many links: four times --flows at most")
	flags.DurationVar(&f.age, "age", d.Age, "metrics that nobody reports for so long go; 0: never")
	kit.CompleteFlag(cmd, "threshold", completeThreshold)
}

// config is what the flags ask for.
func (f *metricFlags) config() (metrics.Config, error) {
	c := metrics.DefaultConfig()
	c.Congested, c.Flows, c.Series, c.Age = f.congested, int(f.flows), int(f.series), f.age
	if f.flows < 1 || f.flows > 1<<24 {
		return c, fmt.Errorf("--flows %v: use 1 to 16M", &f.flows)
	}
	if f.series < 1 || f.series > 1<<26 {
		return c, fmt.Errorf("--series %v: use 1 to 64M", &f.series)
	}
	if f.age < 0 {
		return c, fmt.Errorf("--age %v: use 0 or more", f.age)
	}
	if f.congested >= 1<<62 {
		return c, fmt.Errorf("--congested %d: too much", f.congested)
	}
	set := make(map[metrics.Metric]bool)
	for _, s := range joinValues(f.thresholds) {
		name, text, ok := strings.Cut(s, "=")
		if !ok {
			return c, fmt.Errorf("--threshold %q: use METRIC=10%%, =5us, =100 or =10%%,100us", s)
		}
		which := others(set)
		if name != "all" {
			m, err := metrics.ByName(name)
			if err != nil {
				return c, fmt.Errorf("--threshold: %w", err)
			}
			if set[m] {
				return c, fmt.Errorf("--threshold %s: twice", name)
			}
			set[m], which = true, []metrics.Metric{m}
		}
		for _, m := range which {
			t, err := metrics.ParseThreshold(m, text)
			if err != nil {
				return c, fmt.Errorf("--threshold: %w", err)
			}
			c.Thresholds[m] = t
		}
	}
	return c, nil
}

// joinValues puts back together what a list has cut at a comma: a value without a name belongs to the
// entry before.
func joinValues(list []string) (joined []string) {
	for _, s := range list {
		if n := len(joined); n > 0 && !strings.Contains(s, "=") {
			joined[n-1] += "," + s
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// others are the metrics with thresholds that are not in set.
func others(set map[metrics.Metric]bool) (list []metrics.Metric) {
	for m := range metrics.NumMetrics {
		if m.HasThreshold() && !set[m] {
			list = append(list, m)
		}
	}
	return list
}

// completeThreshold completes METRIC=.
func completeThreshold(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list []cobra.Completion
	for _, m := range others(nil) {
		list = append(list, m.String()+"=")
	}
	return slices.Concat(list, []cobra.Completion{"all="}), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
