// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/oracle"
	"github.com/vnetradar/radar/pkg/record"
)

// bounds of the issue for radar's times against the captures'.
var bounds = oracle.Bounds{P99: 20 * time.Microsecond, Bias: 2 * time.Microsecond}

// maxClockError between a record's absolute time and the capture's.
const maxClockError = time.Millisecond

// attempts of a round whose captures are incomplete or whose times are blurred
// by whatever else the machine does. Nothing else is ever tried again.
const attempts = 3

// round is traffic through one lab, watched and judged.
type round struct {
	name     string
	scenario string
	attach   func(nodes []string) []string // nil: radar is not there
	hooks    bool                          // nflog in every node: the header that its stack sees
	sockets  bool                          // raw sockets at the hosts: what processes get
	prepare  func(t *testing.T, n *network) func(t *testing.T) []oracle.Drop
	traffic  func(t *testing.T, n *network) []*sentLog
}

func everyNode(nodes []string) []string { return nodes }

// routers leaves the hosts out: their interfaces lie outside the domain.
func routers(nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return strings.HasPrefix(n, "h") })
}

var rounds = []round{
	{"chain, no radar", "chain", nil, true, true, prepareChain, chainTraffic},
	{"chain, all nodes attached", "chain", everyNode, true, true, prepareChain, chainTraffic},
	{"chain, routers attached", "chain", routers, false, true, prepareChain, chainTraffic},
	{"bottleneck, no radar", "bottleneck", nil, true, true, prepareBottleneck, bottleneckTraffic},
	{"bottleneck, all nodes attached", "bottleneck", everyNode, true, true, prepareBottleneck, bottleneckTraffic},
	{"bottleneck, routers attached", "bottleneck", routers, false, true, prepareBottleneck, bottleneckTraffic},
}

// TestTruth is the proof that what radar says is what happened, and that
// nobody outside can tell that it was there.
func TestTruth(t *testing.T) {
	for _, r := range rounds {
		t.Run(r.name, func(t *testing.T) {
			for attempt := 1; ; attempt++ {
				report, err := r.run(t)
				if err != nil && !errors.Is(err, errIncomplete) {
					t.Fatal(err)
				}
				again := err != nil || onlyTimesWrong(report)
				if again && attempt < attempts {
					t.Logf("attempt %d does not count: %s", attempt, whyAgain(report, err))
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				report.Title += fmt.Sprintf(" (attempt %d of at most %d)", attempt, attempts)
				keepReport(report)
				if !report.OK() {
					t.Error("radar and the captures disagree, see the table")
				}
				return
			}
		})
	}
}

// onlyTimesWrong says whether nothing but bounds on times was missed.
func onlyTimesWrong(r *oracle.Report) bool {
	if r.OK() {
		return false
	}
	for _, row := range r.Rows {
		if !row.OK() && !row.Timed {
			return false
		}
	}
	return true
}

func whyAgain(r *oracle.Report, err error) string {
	if err != nil {
		return err.Error()
	}
	var why []string
	for _, row := range r.Rows {
		if !row.OK() {
			why = append(why, row.Check+": "+strings.Join(row.Findings, ", "))
		}
	}
	return strings.Join(why, "; ")
}

// run is one attempt. An error that is errIncomplete says nothing about radar.
func (r round) run(t *testing.T) (report *oracle.Report, err error) {
	ctx := deadline(t, 2*time.Minute)
	n := startNetwork(ctx, t, r.scenario)
	drops := r.prepare(t, n)
	c := n.capture(t, r.hooks)
	if r.sockets {
		for _, node := range n.nodes() {
			if strings.HasPrefix(node, "h") {
				c.listenRaw(t, node, 1, 6, 17, otherProtocol)
			}
		}
	}
	var attached []string
	var rad *radar
	if r.attach != nil {
		attached = r.attach(n.nodes())
		rad = n.attach(t, attached)
	}
	sent := r.traffic(t, n)
	var v verdict
	if rad != nil {
		v = rad.verdict(t)
	}
	if err := c.stop(); err != nil {
		return nil, err
	}
	if rad != nil {
		rad.run(t, "detach")
	}
	truth, err := c.load(sent)
	if err != nil {
		return nil, err
	}
	return r.judge(truth, n, attached, drops(t), v), nil
}

// verdict is everything that radar says about a round.
type verdict struct {
	records     []record.Record
	losses      []oracle.Losses
	notMeasured int
}

func (r *radar) verdict(t *testing.T) verdict {
	t.Helper()
	s := r.settle(t)
	t.Logf("counters: %s", s.notable())
	return verdict{r.records(t), r.losses(t), s.notMeasured()}
}

func (r round) judge(truth *oracle.Truth, n *network, attached []string, drops []oracle.Drop, v verdict) *oracle.Report {
	d := oracle.NewDomain(attached...)
	report := &oracle.Report{Title: fmt.Sprintf("%s: %d packets", r.name, truth.Packets())}
	report.Add(truth.CheckCaptures(d))
	if len(attached) < len(n.nodes()) {
		report.Add(truth.CheckOutside(d))
	}
	if r.hooks {
		report.Add(truth.CheckInside(d))
	}
	report.Add(truth.CheckSockets(d), truth.CheckQuotes(d))
	report.Add(truth.CheckDrops(oracle.NewDomain(n.nodes()...), drops)...)
	if attached == nil {
		return report
	}
	c := truth.Compare(d, drops, v.records)
	report.Add(c.Rows(v.notMeasured)...)
	report.Add(oracle.CheckLossCounts(drops, v.losses)...)
	report.Add(c.Latency(bounds)...)
	report.Add(c.Clock(maxClockError))
	return report
}
