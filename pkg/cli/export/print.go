// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/telemetry/export"
	"github.com/vnetradar/radar/pkg/words"
)

// start is what is said before the first report.
type start struct {
	Domain     string          `json:"domain"`
	Version    string          `json:"report_version"`
	Mode       string          `json:"mode"`
	Sample     uint64          `json:"sample"`
	Collectors []string        `json:"collectors"`
	Nodes      []export.NodeID `json:"nodes"`
}

func (x *exporting) printStart(f *options) error {
	v := start{Domain: x.Domain, Version: f.version, Mode: f.mode, Sample: max(x.sample, 1), Nodes: x.numbers.Nodes()}
	for _, s := range x.senders {
		v.Collectors = append(v.Collectors, s.To.String())
	}
	if x.Output == kit.FormatJSON {
		if err := kit.PrintJSON(x.Out, v); err != nil {
			return err
		}
		return x.Out.Flush()
	}
	t := kit.NewTable(kit.Column{Title: "NODE"}, kit.Column{Title: "ID", Right: true})
	for _, n := range v.Nodes {
		t.Add(n.Name, fmt.Sprint(n.ID))
	}
	if err := t.Flush(x.Stderr); err != nil {
		return err
	}
	fmt.Fprintf(x.Stderr, "radar: sending telemetry reports %s (%s) to %s\n", v.Version, v.Mode, strings.Join(v.Collectors, ", "))
	return nil
}

// end is what is said after the last report.
type end struct {
	export.Counts
	counts
	feedCounts
	Collectors []collectorView `json:"collectors"`
}

func (x *exporting) printEnd() error {
	v := end{Counts: x.encoder.Counts, counts: x.counts, feedCounts: x.feedCounts}
	for _, s := range x.senders {
		v.Collectors = append(v.Collectors, s.view())
	}
	return x.sayEnd(&v)
}

// lines say it in words; what did not happen is not said.
func (v *end) lines() []string {
	lines := []string{fmt.Sprintf("%s, %d of them reported by %s, %d of these of drops",
		words.Plural(int(v.Packets), "packet"), v.Reported, words.Plural(int(v.Reports), "report"), v.Drops)}
	for _, c := range v.Collectors {
		line := fmt.Sprintf("%s: %d sent", c.Collector, c.Sent)
		if c.Refused > 0 {
			line += fmt.Sprintf(", %s that nobody listens there", words.Plural(int(c.Refused), "answer"))
		}
		if c.Failed > 0 {
			var texts []string
			for text, n := range c.Errors {
				texts = append(texts, fmt.Sprintf("%s %d", text, n))
			}
			slices.Sort(texts)
			line += fmt.Sprintf(", %d not sent (%s)", c.Failed, strings.Join(texts, ", "))
		}
		lines = append(lines, line)
	}
	return append(lines, counted{
		{v.Expired, "", "without report: expired, nobody saw how they ended"},
		{v.Ignored, "", "without report: came only to nodes that did not want them"},
		{v.InFlight, "", "without report: a copy had not ended"},
		{v.NoHeader, "", "without report: nothing is known of the header"},
		{v.NoHops, "", "without report: no node is known"},
		{v.Failed, "", "without report: a value does not fit the format"},
		{v.NotSampled, "", "without report: not one of the sample"},
		{v.Own, "", "without report: to the collectors, or their answers"},
		{v.Interrupted, "report", "not sent: waiting for --rate at the end"},
		{v.NotEnded, "packet", "had not ended, or not for certain yet"},
		{v.Unread, "packet", "at most, overwritten before being read (attach with more --slots)"},
		{v.Truncated, "packet", "of whose way a part may be missing"},
		{v.Branched, "packet", "with copies: a report for each"},
		{v.Trains, "report", "for trains, of " + words.Plural(int(v.TrainPackets), "packet")},
		{v.Translated, "report", "with what NAT had made of the packet"},
		{v.NoStack, "way", "reported by each node: such a packet cannot carry a stack"},
		{v.Split, "way", "too long for one stack"},
		{v.UnknownNodes, "visit", "of nodes that are not known"},
		{v.UnknownReasons, "drop", "whose reason has no number"},
	}.lines()...)
}
