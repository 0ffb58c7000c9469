// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/dropwatch"
	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/oracle"
	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/record"
)

// bounds on radar's times against the captures', in the tier "nightly". In others the
// machine may be busy: there only the limits that captures put on times are checked
// (oracle.CheckStamps).
const (
	maxP99  = 20 * time.Microsecond
	maxBias = 2 * time.Microsecond
)

// observerTime of each scenario, as its round without radar finds it. It is used where times are
// checked: there rounds run one after the other.
var observerTime = map[string]time.Duration{}

// needObserverTime runs the round without radar if it has not run, because only one round was
// asked for.
func (r round) needObserverTime(t *testing.T) {
	t.Helper()
	i := slices.IndexFunc(rounds, func(o round) bool { return o.scenario == r.scenario && o.attach == nil })
	if !need.IsNightly(t) || r.attach == nil || i < 0 || observerTime[r.scenario] > 0 {
		return
	}
	t.Run("without radar", func(t *testing.T) {
		if _, err := rounds[i].run(t, 1); err != nil {
			t.Fatal(err)
		}
	})
}

// maxClockError between a record's absolute time and the capture's.
const maxClockError = time.Millisecond

// attempts of a round whose captures are incomplete or, where times are checked, whose times
// are blurred by other work of the machine. Each kind of time must have been within its
// bounds in one attempt. Nothing else is tried again, and the last attempt counts.
const attempts = 4

// blur is how far times may be beyond their bounds in the last attempt: a machine can be too
// busy all the time. `make soak SOAK=Truth`, for a quiet one, allows none.
const blur = 4

// round is traffic through one lab, watched and compared. Wires are always
// captured, and raw sockets at the hosts.
type round struct {
	name     string
	scenario string
	attach   func(nodes []string) []string // nil: radar is not there
	flags    []string                      // of radar attach
	// marked: inside nodes every header is the true one, as the stack sees it.
	marked bool
	always bool // in the tier "test", too
}

func everyNode(nodes []string) []string { return nodes }

// routers leaves the hosts out: their interfaces lie outside the domain.
func routers(nodes []string) []string {
	return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return strings.HasPrefix(n, "h") })
}

var rounds = []round{
	{"chain, no radar", "chain", nil, nil, true, false},
	{"chain, all nodes attached", "chain", everyNode, nil, true, true},
	{"chain, routers attached", "chain", routers, nil, true, false},
	{
		"chain, all nodes attached with --carry header --hook clsact", "chain", everyNode,
		[]string{"--carry", "header", "--hook", "clsact"}, false, false,
	},
	{"bottleneck, no radar", "bottleneck", nil, nil, true, false},
	{"bottleneck, all nodes attached", "bottleneck", everyNode, nil, true, false},
	{"bottleneck, routers attached", "bottleneck", routers, nil, true, true},
	{"two ways, all nodes attached", "twoways", everyNode, nil, true, true},
}

// scene is what else the packets of a scenario meet, and what traffic there is.
type scene struct {
	prepare func(t *testing.T, n *network) func(t *testing.T) []oracle.Drop
	traffic func(t *testing.T, n *network) []*sentLog
}

var scenes = map[string]scene{
	"chain":      {prepareChain, chainTraffic},
	"bottleneck": {prepareBottleneck, bottleneckTraffic},
	"twoways":    {prepareTwoWays, twoWaysTraffic},
}

// TestTruth shows that what radar says is what happened, and that nobody outside
// the domain can notice it.
func TestTruth(t *testing.T) {
	sideBySide(t)
	for _, r := range rounds {
		t.Run(r.name, func(t *testing.T) {
			if !r.always {
				need.Nightly(t)
			}
			sideBySide(t)
			r.needObserverTime(t)
			within := map[string]bool{} // kinds of times
			for attempt := 1; ; attempt++ {
				last := attempt == attempts
				slack := time.Duration(1)
				if last && !soak {
					slack = blur
				}
				report, err := r.run(t, slack)
				if err != nil && (last || !errors.Is(err, errIncomplete) && !errors.Is(err, dropwatch.ErrIncomplete)) {
					t.Fatal(err)
				}
				if again := whyAgain(report, err, within); again != "" && !last {
					t.Logf("attempt %d does not count: %s", attempt, again)
					continue
				}
				report.Title += fmt.Sprintf(" (attempt %d of at most %d)", attempt, attempts)
				keepReport(t, report)
				if !report.OK() {
					t.Error("radar and the captures disagree, see the table")
				}
				return
			}
		})
	}
}

// whyAgain says why an attempt does not count; "": it does. It does not if a capture is
// incomplete, or if only times are wrong, of a kind that no attempt has found within its
// bounds. within notes the kinds that one has found; their rows are excused.
func whyAgain(r *oracle.Report, err error, within map[string]bool) string {
	if err != nil {
		return err.Error()
	}
	var why []string
	for _, row := range r.Rows {
		switch {
		case row.OK():
			within[row.Check] = true
		case !row.Timed:
			return ""
		case within[row.Check]:
			row.Excuse("within its bounds in an earlier attempt")
		default:
			why = append(why, row.Check+": "+strings.Join(row.Findings, ", "))
		}
	}
	return strings.Join(why, "; ")
}

// run is one attempt, with bounds on times that are slack times as wide. An error that is
// errIncomplete says nothing about radar.
func (r round) run(t *testing.T, slack time.Duration) (report *oracle.Report, err error) {
	ctx := lifetime(t)
	n := startNetwork(ctx, t, r.scenario)
	drops := scenes[r.scenario].prepare(t, n)
	twin := ""
	if r.attach == nil {
		twin = "r1"
	}
	c := n.capture(t, twin)
	for _, node := range n.nodes() {
		if strings.HasPrefix(node, "h") {
			c.listenRaw(t, node, 1, 6, 17, otherProtocol)
		}
	}
	var attached []string
	var rad *radar
	if r.attach != nil {
		attached = r.attach(n.nodes())
		rad = n.attach(t, attached, append([]string{"--timeout", packetTimeout}, r.flags...)...)
	}
	watch := dropwatch.Start(t)
	offset := clock.WallOffset()
	sent := scenes[r.scenario].traffic(t, n)
	n.carried(t)
	var v verdict
	if rad != nil {
		v = rad.verdict(t)
		if r.scenario == "twoways" {
			v.selected = rad.askAboutSome(t, v.records)
		}
	}
	if err := c.stop(t); err != nil {
		return nil, err
	}
	if rad != nil {
		rad.run(t, "detach", "--no-drain")
	}
	if err := watch.Stop(); err != nil {
		return nil, err
	}
	if set := clock.WallOffset() - offset; max(set, -set) > maxClockDrift {
		return nil, fmt.Errorf("%w: somebody set the wall clock by %v", errIncomplete, time.Duration(set))
	}
	if twin != "" {
		d, err := c.observerTime()
		if err != nil {
			return nil, err
		}
		observerTime[r.scenario] = d
		t.Logf("a capture takes %v for one packet", d)
	}
	truth, err := c.load(sent)
	if err != nil {
		return nil, err
	}
	times := oracle.Bounds{P99: slack * maxP99, Bias: slack * maxBias, Clock: slack * maxClockError, Unjudged: !need.IsNightly(t)}
	return r.compare(truth, n, attached, drops(t), v, watch, times), nil
}

// maxClockDrift: the measured difference of two clocks that run at one rate may change by so
// much, because measuring is not exact.
const maxClockDrift = int64(5 * time.Microsecond)

// verdict is everything that radar says about a round.
type verdict struct {
	records     []record.Record
	losses      []oracle.Losses
	answers     *oracle.Answers
	selected    []selected
	topo        *oracle.TopoAnswer
	traces      []oracle.TraceAnswer
	notMeasured int
	lossMissed  int
}

func (r *radar) verdict(t *testing.T) verdict {
	t.Helper()
	s := r.settle(t)
	t.Logf("counters: %s", s.notable())
	v := verdict{records: r.records(t), losses: r.losses(t), answers: r.answers(t), notMeasured: s.notMeasured(), lossMissed: s.lossMissed(), topo: r.topo(t)}
	v.traces = r.traces(t, v.records)
	return v
}

// compare runs the checks of the round. Drops for which the kernel ran no tracing program, by
// its own events and count, are excluded; the table names them.
func (r round) compare(truth *oracle.Truth, n *network, attached []string, drops []oracle.Drop, v verdict, w *dropwatch.Watch, times oracle.Bounds) *oracle.Report {
	d := oracle.NewDomain(attached...)
	report := &oracle.Report{Title: fmt.Sprintf("%s: %d packets", r.name, truth.Packets())}
	report.Add(truth.CheckCaptures(d))
	if r.scenario != "twoways" {
		report.Add(truth.CheckTrains(true, r.scenario == "chain"))
	}
	if len(attached) < len(n.nodes()) {
		report.Add(truth.CheckOutside(d))
	}
	if r.marked {
		report.Add(truth.CheckInside(d))
	}
	report.Add(truth.CheckSockets(d), truth.CheckQuotes(d))
	report.Add(truth.CheckDrops(oracle.NewDomain(n.nodes()...), drops)...)
	if attached == nil {
		return report
	}
	report.Add(truth.CheckTopo(d, v.topo))
	c := truth.Compare(d, drops, v.records)
	// More than a few would be a fault of the hook, not of a run of it that others interrupted.
	w.Missed = min(v.lossMissed, 1+w.Len()/50)
	c.Unseen(w.Blind)
	report.Add(c.Rows(v.notMeasured)...)
	report.Add(c.CheckLossCounts(v.losses)...)
	report.Add(c.CheckStamps()...)
	report.Add(c.Clock(times))
	report.Add(c.CheckCounts(v.answers)...)
	b := times
	b.P99 = maxAnswerError * (times.P99 / maxP99)
	traces := c.CheckTraces(v.traces, b)
	report.Add(traces[:2]...)
	switch {
	case r.scenario == "twoways": // no trains there, and the machine has time
		report.Add(c.CheckFlowTimes(v.answers.Flows, b)...)
		report.Add(c.CheckLatency(v.answers, b)...)
		report.Add(c.CheckThroughput(v.answers)...)
		report.Add(traces[2])
		for _, s := range v.selected {
			report.Add(c.Select(s.Selection).CheckSelected(s.answers, b)...)
		}
	case r.flags == nil: // times are promised for the defaults
		// Which part of a tap's pass lies before its stamp is not known: the median may be
		// off by that much.
		times.Observer = observerTime[r.scenario]
		times.Bias += times.Observer
		report.Add(c.Latency(times)...)
	}
	return report
}
