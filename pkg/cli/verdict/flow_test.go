// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/explain"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
)

// TestLastOfFlow: with --last, what is analysed is from the time of the packets that were chosen, however many others
// there are.
func TestLastOfFlow(t *testing.T) {
	for _, args := range [][]string{nil, {"10.0.0.1:4000-10.0.3.2:5201"}} {
		k := &kit.Kit{Now: time.Now}
		f := &explainOptions{}
		cmd := NewExplainCmd(k)
		cmd.ResetFlags()
		f.Add(k, cmd, "")
		if err := cmd.Flags().Parse([]string{"--last", "7"}); err != nil {
			t.Fatal(err)
		}
		chosen, all, err := f.read(cmd, k, args)
		if err != nil {
			t.Fatal(err)
		}
		var c choice
		for _, at := range []int64{30, 10, 20} {
			c.add(&record.Record{TNs: at})
		}
		c.within(chosen, all)
		if chosen.Last != 7 || all.Last != 0 || !all.Since.Equal(time.Unix(0, 10)) {
			t.Errorf("%v: the newest %d choose, the newest %d since %v are analysed", args, chosen.Last, all.Last, all.Since)
		}
		all.Since = time.Time{}
		if c.within(&answer.Selection{}, all); !all.Since.IsZero() {
			t.Errorf("without --last: since %v", all.Since)
		}
	}
}

// TestRoundTripsLeftOut: the answer says how many its parts do not have.
func TestRoundTripsLeftOut(t *testing.T) {
	some := &aggregate.Quantiles{Count: 3}
	for _, c := range []struct {
		answer explain.Answer
		want   string
	}{
		{explain.Answer{Proto: "tcp", RTT: some}, ""},
		{explain.Answer{Proto: "tcp", RTT: some, LeftOut: 1}, "1 round trip left out: during loss recovery, or of data that was sent twice\n"},
		{explain.Answer{Proto: "tcp", LeftOut: 2}, "no round trip can be divided\n2 round trips left out: "},
	} {
		var out strings.Builder
		k := kit.New(strings.NewReader(""), &out, &out)
		if err := printParts(k, &c.answer); err != nil {
			t.Error(err)
		}
		if k.Out.Flush(); !strings.Contains(out.String(), c.want) || c.want == "" && strings.Contains(out.String(), "left out") {
			t.Errorf("%+v: printed %q, want %q", c.answer, out.String(), c.want)
		}
	}
}
