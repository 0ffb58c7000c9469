// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/answer/compare"
	"github.com/vnetradar/radar/pkg/cli/kit"
)

// TestWrongSegs: a file's record that stands for no packet, or for more than the kernel counts, is refused with its
// line.
func TestWrongSegs(t *testing.T) {
	for segs, refused := range map[int]bool{-1: true, 0: true, 1: false, 65535: false, 65536: true} {
		text := fmt.Sprintf("\n"+`{"v":1,"id":"1-2","state":"lost","segs":%d}`+"\n", segs)
		run := compare.NewRun("a")
		err := readRecords(strings.NewReader(text), &answer.Selection{}, run)
		if (err != nil) != refused || refused && !strings.HasPrefix(err.Error(), fmt.Sprintf("line 2: segs %d: ", segs)) || !refused && run.Packets() != uint64(segs) {
			t.Errorf("segs %d: %d packets, %v", segs, run.Packets(), err)
		}
	}
}

// TestUnproven: a large difference that was not proven is said below the others, with what would tell.
func TestUnproven(t *testing.T) {
	p, alone := 0.4, 0.03
	one := compare.Unproven{Change: compare.Change{Text: "at s3/eth1 (queue): lost from 0 % to 12.4 % of the packets", P: &p}, PAlone: &alone, Bursts: 3}
	const proven = "not proven: at s3/eth1 (queue): lost from 0 % to 12.4 % of the packets, in 3 bursts (P 0.4 among 61 comparisons, 0.03 by itself; alpha 0.01)\n"
	untested := one
	untested.PAlone, untested.Bursts = nil, 0
	for _, c := range []struct {
		report compare.Report
		want   string // how it ends
	}{
		{compare.Report{Unproven: []compare.Unproven{one}}, "\n\n" + proven + "more runs would tell: radar diff A1 A2 A3 -- B1 B2 B3\n"},
		{compare.Report{Before: compare.Summary{Runs: 2}, Unproven: []compare.Unproven{untested, one, one, one, one}},
			proven + "not proven: 2 more (-o json)\nmore runs in each group would tell\n"},
		{compare.Report{Unproven: []compare.Unproven{untested}}, "12.4 % of the packets (too few packets to test)\nmore runs would tell: radar diff A1 A2 A3 -- B1 B2 B3\n"},
		{compare.Report{}, "no difference beyond noise (61 comparisons, chance of a false alarm 0.01)\n"},
	} {
		c.report.Comparisons, c.report.Alpha = 61, 0.01
		var out strings.Builder
		k := &kit.Kit{Out: bufio.NewWriter(&out)}
		err := printDiff(k, &c.report)
		k.Out.Flush()
		if err != nil || !strings.HasSuffix(out.String(), c.want) {
			t.Errorf("%v\n%s\nwant at its end\n%s", err, out.String(), c.want)
		}
	}
}
