// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/telemetry/node"
	"github.com/vnetradar/radar/pkg/telemetry/node/agent"
	"github.com/vnetradar/radar/pkg/words"
)

// statusView is what "radar int status" prints as JSON.
type statusView struct {
	Domain    string       `json:"domain"`
	Attached  time.Time    `json:"attached"`
	Hook      string       `json:"hook"`
	Nodes     []countsView `json:"nodes"`
	Watchlist []entryView  `json:"watchlist"`
	Mark      string       `json:"mark"`
	Report    string       `json:"report"`
	Via       string       `json:"via"`
	Lease     leaseView    `json:"lease"`
	Agent     agent.State  `json:"agent"`
	Lost      uint64       `json:"reports_lost"` // that the agent did not take in time
	Notes     []string     `json:"notes,omitempty"`
}

type countsView struct {
	nodeView
	Did     []countView `json:"did"`     // those that are not 0
	Skipped []countView `json:"skipped"` // those that are not 0
	done    [len(bpfobj.IntCounters{}.Done)]uint64
}

type countView struct {
	Name  string `json:"name"`
	Value uint64 `json:"value"`
	Help  string `json:"help"`
}

type leaseView struct {
	Runs   bool  `json:"runs"`
	Ends   bool  `json:"ends"`
	LeftNs int64 `json:"left_ns,omitempty"`
}

func newStatusCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show INT nodes, what they did to packets, and what became of reports",
		Long: `Show the domain's INT nodes, their ports and roles, how many packets got INT, metadata, or
lost their INT, why others did not, and what became of telemetry reports.

A packet that passes a port with a role and gets nothing is counted with the reason. Reasons that
are 0 are not shown. If the agent was killed, another one is started.`,
		Example: "  radar int status\n  radar int status -o json | jq '.nodes[].skipped'",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return status(k) },
	}
}

func status(k *kit.Kit) error {
	d, err := node.Load(k.Domain)
	if err != nil {
		return err
	}
	started, err := agent.Ensure(k.Domain)
	if err != nil {
		k.Notef("no agent lives, and none could be started: %v", err)
	} else if started.Log != "" {
		k.Notef("no agent lived: process %d is one now (log: %s)", started.PID, started.Log)
	}
	v, err := newStatusView(d)
	if err != nil {
		return err
	}
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, v)
	}
	return printStatus(k, v)
}

func newStatusView(d *node.Domain) (*statusView, error) {
	v := &statusView{
		Domain: d.Name, Attached: d.Created, Hook: d.Hook, Watchlist: entryViews(d.Options.Entries), Mark: d.Options.Mark.String(),
		Report: d.Options.Report, Via: d.Via.Name, Notes: kit.Rendered(d.Notes()),
	}
	control, err := node.OpenControl(d.Name)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	left, ends := control.Lease().Left()
	v.Lease = leaseView{Runs: !ends || left > 0, Ends: ends, LeftNs: int64(max(left, 0))}
	for i, n := range nodeViews(d) {
		counters, err := d.Counters(&d.Nodes[i])
		if err != nil {
			return nil, err
		}
		v.Lost += counters.Done[bpfobj.INT_DONE_REPORT_LOST]
		v.Nodes = append(v.Nodes, countsView{n, countViews(counters.Done[:], node.Done[:]), countViews(counters.Skipped[:], node.Skipped[:]), counters.Done})
	}
	if v.Agent, err = agent.ReadState(d.Name); err != nil {
		return nil, err
	}
	p, err := agent.Find(d.Name)
	if err != nil {
		return nil, err
	}
	v.Agent.PID = p.PID
	v.Agent.Troubles, err = p.Troubles()
	v.Notes = append(v.Notes, v.collectorNotes()...)
	return v, err
}

// countViews are the counters that are not 0.
func countViews(values []uint64, meanings []node.Meaning) []countView {
	list := []countView{}
	for i, n := range values {
		if n == 0 {
			continue
		}
		c := countView{Name: fmt.Sprintf("number_%d", i), Value: n, Help: "of programs that are newer than this radar"}
		if i < len(meanings) && meanings[i].Name != "" {
			c.Name, c.Help = meanings[i].Name, kit.Face.Render(meanings[i].Help)
		}
		list = append(list, c)
	}
	return list
}

// refusedRecently is how long an answer of the collector's machine counts as news.
const refusedRecently = 10 * time.Second

// collectorNotes say what is wrong with reports on their way.
func (v *statusView) collectorNotes() (notes []string) {
	s := &v.Agent
	if s.PID == 0 {
		notes = append(notes, "no agent lives: nobody renews the lease, and reports wait (radar int attach)")
	}
	if !s.LastRefused.IsZero() && time.Since(s.LastRefused) < refusedRecently {
		notes = append(notes, fmt.Sprintf("nobody listens at the collector's address %s: %d datagrams of %d were refused (radar collect)", s.Address, s.Refused, s.Sent))
	}
	for _, t := range s.Troubles {
		notes = append(notes, fmt.Sprintf("the agent cannot %s since %s: %s", t.What, t.Since.Local().Format(time.TimeOnly), t.Error))
	}
	if v.Lost > 0 {
		notes = append(notes, fmt.Sprintf("%s lost: the agent did not take them in time", words.Plural(int(v.Lost), "report")))
	}
	return notes
}

func printStatus(k *kit.Kit, v *statusView) error {
	head := kit.NewTable(kit.Column{Title: "INT DOMAIN"}, kit.Column{Title: v.Domain})
	head.Add("attached", v.Attached.In(k.Location).Format(time.DateTime)+", by "+v.Hook)
	for i := range v.Watchlist {
		head.Add("watchlist", strings.TrimPrefix(v.Watchlist[i].line(v.Mark), "watchlist: "))
	}
	for _, n := range v.Nodes {
		for i := range n.Watchlist {
			head.Add("watchlist", n.Name+": "+strings.TrimPrefix(n.Watchlist[i].line(v.Mark), "watchlist: "))
		}
	}
	head.Add("lease", v.Lease.words())
	head.Add("agent", agentWords(v.Agent.PID))
	head.Add("reports", fmt.Sprintf("%d (%s) in %d datagrams to %s, from %s; %d sent, %d not sent, %d refused, %d lost",
		v.Agent.Reports, v.Report, v.Agent.Datagrams, v.Agent.Collector, v.Via, v.Agent.Sent, v.Agent.Failed+v.Agent.Unsent, v.Agent.Refused, v.Lost))
	if err := head.Flush(k.Out); err != nil {
		return err
	}
	fmt.Fprintln(k.Out)
	nodes := make([]nodeView, len(v.Nodes))
	for i := range v.Nodes {
		nodes[i] = v.Nodes[i].nodeView
	}
	if err := printPorts(k, nodes); err != nil {
		return err
	}
	fmt.Fprintln(k.Out)
	if err := printCounts(k, v.Nodes); err != nil {
		return err
	}
	for _, text := range v.Notes {
		k.Notef("%s", text)
	}
	return nil
}

func printCounts(k *kit.Kit, nodes []countsView) error {
	t := kit.NewTable(kit.Column{Title: "NODE"}, kit.Column{Title: "SOURCE", Right: true}, kit.Column{Title: "TRANSIT", Right: true},
		kit.Column{Title: "SINK", Right: true}, kit.Column{Title: "REPORTS", Right: true})
	reasons := kit.NewTable(kit.Column{Title: "NODE"}, kit.Column{Title: "ALSO"}, kit.Column{Title: "COUNT", Right: true}, kit.Column{Title: "MEANING"})
	for _, n := range nodes {
		of := func(d bpfobj.IntDone) string { return strconv.FormatUint(n.done[d], 10) }
		t.Add(n.Name, of(bpfobj.INT_DONE_SOURCE), of(bpfobj.INT_DONE_TRANSIT), of(bpfobj.INT_DONE_SINK), of(bpfobj.INT_DONE_SENT))
		for _, c := range n.Did {
			switch c.Name {
			case "source", "transit", "sink", "reports":
			default:
				reasons.Add(n.Name, c.Name, strconv.FormatUint(c.Value, 10), c.Help)
			}
		}
		for _, c := range n.Skipped {
			reasons.Add(n.Name, c.Name, strconv.FormatUint(c.Value, 10), "nothing done: "+c.Help)
		}
	}
	if err := t.Flush(k.Out); err != nil || reasons.Empty() {
		return err
	}
	fmt.Fprintln(k.Out)
	return reasons.Flush(k.Out)
}

func (l leaseView) words() string {
	switch {
	case !l.Ends:
		return "for ever"
	case !l.Runs:
		return "has ended: sources give no INT, sinks go on"
	}
	return "sources give INT for " + time.Duration(l.LeftNs).Round(time.Second).String() + " without an agent"
}

func agentWords(pid int) string {
	if pid == 0 {
		return "none"
	}
	return fmt.Sprintf("process %d", pid)
}
