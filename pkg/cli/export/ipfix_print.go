// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/sink/ipfix"
	"github.com/vnetradar/radar/pkg/words"
)

// flowStart is what is said before the first flow record.
type flowStart struct {
	Domain        string `json:"domain"`
	Mode          string `json:"mode"`
	Transport     string `json:"transport"` // udp, tcp or file
	To            string `json:"to"`
	DomainID      uint32 `json:"observation_domain_id"`
	ActiveTimeout string `json:"active_timeout"`
	IdleTimeout   string `json:"idle_timeout"`
	MostBytes     int    `json:"message_bytes"`
}

func (x *flowExport) printStart() error {
	f := x.options
	v := flowStart{x.Domain, f.mode.Value, f.transport.Value, x.way.counts().To, f.domainID, f.active.String(), f.idle.String(), x.way.mostBytes()}
	if f.file != "" {
		v.Transport = "file"
	}
	if x.Output == kit.FormatJSON {
		if err := kit.PrintJSON(x.Out, v); err != nil {
			return err
		}
		return x.Out.Flush()
	}
	_, err := fmt.Fprintf(x.Stderr, "radar: sending flow records (%s) to %s by %s, Ctrl-C ends\n", v.Mode, v.To, v.Transport)
	return err
}

// flowEnd is what is said after the last flow record.
type flowEnd struct {
	ipfix.Counts
	feedCounts
	Interrupted uint64     `json:"interrupted_flows"` // waited for --rate at the end
	Collector   *wayCounts `json:"collector"`
}

func (x *flowExport) printEnd() error {
	v := flowEnd{x.exporter.Counts, x.feedCounts, x.stopped, x.way.counts()}
	return x.sayEnd(&v)
}

// lines say it in words; what did not happen is not said.
func (v *flowEnd) lines() []string {
	lines := []string{
		fmt.Sprintf("%s, %s, in %s", words.Plural(int(v.Packets), "packet"), words.Plural(int(v.Bytes), "byte"), words.Plural(int(v.Flows), "flow record")),
		v.Collector.line(),
	}
	lines = append(lines, counted{
		{v.Interrupted, "flow record", "not sent: waiting for --rate at the end"},
		{v.NoHeader, "packet", "not exported: nothing is known of the header"},
		{v.NoHops, "packet", "not exported: no node is known"},
		{v.Evicted, "flow record", "ended for lack of room (--flows)"},
		{v.Copies, "visit", "of further copies, in no record"},
		{v.CutPaths, "packet", "on ways too long for the list of interfaces: its beginning was sent"},
		{v.Unnumbered, "visit", "of interfaces for which no number was left"},
	}.lines()...)
	return append(lines, v.said().lines()...)
}
