// SPDX-License-Identifier: Apache-2.0

package export

import (
	"fmt"
	"slices"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/sink/otlp"
	"github.com/vnetradar/radar/pkg/words"
)

// traceStart is what is said before the first trace.
type traceStart struct {
	Domain   string `json:"domain"`
	Protocol string `json:"protocol"`
	Endpoint string `json:"endpoint"`
	Sample   string `json:"sample,omitempty"`
	Rate     string `json:"rate,omitempty"`
}

func (x *traceExport) printStart() error {
	f := x.options
	v := traceStart{x.Domain, x.to.protocol, x.to.shown, f.sample.String(), f.rate.String()}
	if x.Output == kit.FormatJSON {
		if err := kit.PrintJSON(x.Out, v); err != nil {
			return err
		}
		return x.Out.Flush()
	}
	_, err := fmt.Fprintf(x.Stderr, "radar: sending traces to %s by OTLP/%s, Ctrl-C ends\n", v.Endpoint, v.Protocol)
	return err
}

// traceEnd is what is said after the last trace.
type traceEnd struct {
	otlp.Counts
	otlp.SampleCounts
	feedCounts
}

func (x *traceExport) printEnd() error {
	v := traceEnd{x.sender.Counts(), x.sampler.SampleCounts, x.feedCounts}
	return x.sayEnd(&v)
}

// lines say it in words; what did not happen is not said.
func (v *traceEnd) lines() []string {
	lines := []string{fmt.Sprintf("%s, %s, %d of them sent in %s", words.Plural(int(v.Packets), "trace"), words.Plural(int(v.Spans), "span"), v.Sent, words.Plural(int(v.Requests), "request"))}
	lines = append(lines, counted{
		{v.Rejected, "span", "not taken: rejected by the collector"},
		{v.Failed, "span", "not sent: the request failed"},
		{v.QueueFull, "span", "not sent: too many waited for the collector"},
		{v.AtEnd, "span", "not sent: waiting when the export ended"},
		{v.Retries, "request", "tried again"},
	}.lines()...)
	var errs []string
	for text, n := range v.Errors {
		errs = append(errs, fmt.Sprintf("%s: %s", words.Plural(int(n), "request"), text))
	}
	slices.Sort(errs)
	lines = append(lines, errs...)
	lines = append(lines, counted{
		{v.NotSampled, "packet", "not exported: not of the sample"},
		{v.OverRate, "packet", "not exported: more than --rate in a second"},
		{v.KeptLosses, "packet", "not of the sample, exported because lost"},
	}.lines()...)
	return append(lines, v.said().lines()...)
}
