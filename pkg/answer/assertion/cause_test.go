// SPDX-License-Identifier: Apache-2.0

package assertion

import (
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/record"
)

// TestCauseUnseen: a promise about causes does not hold if a flow may have been held that nobody has looked at. What is
// broken stays so.
func TestCauseUnseen(t *testing.T) {
	lost := explain.ByFirewall
	of := func(port int, broken bool) (list []record.Record) {
		for i := range int64(40) {
			r := took(i*1e6, 1000)
			r.Sport, r.Dport = &port, &port
			if broken && i%2 == 1 {
				r.State, r.LatencyNs, r.Hops = record.Lost, nil, r.Hops[:2]
				r.Loss = &record.Loss{Node: "r1", At: record.AtNode, Reason: "NETFILTER_DROP", Function: "nft_do_chain"}
			}
			list = append(list, r)
		}
		return list
	}
	for _, c := range []struct {
		name      string
		flows     int
		broken    bool
		full      uint64
		gone      bool // the packets are not there when the flows are explained
		never     bool // the flows are not explained
		want      Verdict
		undecided bool
		cause     string
	}{
		{name: "all", flows: 2, want: Holds},
		{name: "as many as are explained", flows: mostExplained, want: Holds},
		{name: "too many", flows: mostExplained + 1, want: Fails, undecided: true, cause: "only the 16 flows"},
		{name: "too many, broken", flows: mostExplained + 1, broken: true, want: Fails, cause: "only the 16 flows"},
		{name: "no room", flows: 2, full: 3, want: Fails, undecided: true, cause: "3 packets of the smallest"},
		{name: "no room, broken", flows: 2, full: 3, broken: true, want: Fails, cause: "3 packets of the smallest"},
		{name: "gone", flows: 2, gone: true, want: Fails, undecided: true, cause: "of 2 flows no packet"},
		{name: "not explained", flows: 2, never: true, want: Fails, undecided: true, cause: "none was explained"},
		{name: "no flow", want: Fails, undecided: true, cause: "no packet of TCP or UDP"},
	} {
		for _, text := range []string{"never_cause: [firewall]", "cause: [nothing, slow_sender, delay, not_enough]"} {
			f, err := Read("f.yaml", []byte("assertions:\n- name: a\n  "+text))
			if err != nil {
				t.Fatal(err)
			}
			trial := New(&f.Assertions[0])
			var all []record.Record
			for port := range c.flows {
				all = append(all, of(port+1, c.broken && port == 0)...)
			}
			for i := range all {
				trial.Add(&all[i])
			}
			if c.flows == 0 {
				r := took(0, 1)
				trial.Add(&r)
			}
			trial.measure.(*causeMeasure).flows.Full = c.full
			if !c.never {
				add := trial.Explain(explain.New)
				for i := range all {
					if !c.gone {
						add(&all[i])
					}
				}
			}
			r := trial.Result(func() string { return "why" })
			if r.Verdict != c.want || r.Undecided != c.undecided || !strings.Contains(r.Cause, c.cause) || (c.cause == "") != (r.Cause == "") || c.broken != (r.Values[string(lost)] > 0) {
				t.Errorf("%s, %s: %+v", c.name, text, r)
			}
		}
	}
}
