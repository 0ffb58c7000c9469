// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

func newStatusCmd(k *kit.Kit) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how a collector does",
		Long: `Show how the domain's collector does, or how the last one did: what came, what of it was
no report or refused, what was dropped, and what became of what outputs were given.

The numbers of one that runs are at most a second old. Those that are 0 are shown in JSON
only, but for the first ones.`,
		Example: "  radar collect status\n  radar collect status -o json | jq .counts",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return showStatus(k) },
	}
}

func showStatus(k *kit.Kit) error {
	i, err := store.Load(k.Domain)
	if err != nil {
		return fmt.Errorf("domain %s: %w (radar collect)", k.Domain, err)
	}
	runs, err := store.Runs(k.Domain, i)
	if err != nil {
		return err
	}
	if !runs && i.PID != 0 {
		k.Notef("the collector was process %d, and did not end as it should: the numbers are its last ones", i.PID)
		i.PID = 0
	}
	if k.Output == kit.FormatJSON {
		return kit.PrintJSON(k.Out, i)
	}
	return printStatus(k, i)
}

func printStatus(k *kit.Kit, i *collect.Info) error {
	process := "none: it has ended"
	if i.PID != 0 {
		process = fmt.Sprintf("process %d", i.PID)
	}
	ports := make([]string, len(i.Ports))
	for n, port := range i.Ports {
		ports[n] = strconv.Itoa(int(port))
	}
	newest := "none"
	if !i.Newest.IsZero() {
		newest = i.Newest.In(k.Location).Format(time.DateTime)
	}
	head := kit.NewTable(kit.Column{Title: "DOMAIN"}, kit.Column{Title: k.Domain})
	head.Add("collector", process)
	head.Add("since", i.Since.In(k.Location).Format(time.DateTime))
	head.Add("ports", strings.Join(ports, ", "))
	if i.Interface != nil {
		head.Add("interface", i.Interface.Device)
	}
	if i.XDP != nil {
		head.Add("XDP", i.XDP.Device+", "+i.XDP.Mode)
	}
	head.Add("newest datagram", newest)
	if err := head.Flush(k.Out); err != nil {
		return err
	}
	fmt.Fprintln(k.Out)
	if err := printCounts(k, i); err != nil || len(i.Outputs) == 0 {
		return err
	}
	fmt.Fprintln(k.Out)
	t := kit.NewTable(kit.Column{Title: "OUTPUT"}, kit.Column{Title: "WAITING", Right: true}, kit.Column{Title: "WRITTEN", Right: true},
		kit.Column{Title: "DROPPED", Right: true}, kit.Column{Title: "GIVEN UP", Right: true}, kit.Column{Title: "RETRIES", Right: true})
	for _, o := range i.Outputs {
		n := func(n uint64) string { return strconv.FormatUint(n, 10) }
		t.Add(o.Name, strconv.Itoa(o.Waiting), n(o.Written), n(o.DroppedEvents+o.DroppedValues), n(o.GivenUp), n(o.Retries))
	}
	return t.Flush(k.Out)
}

func printCounts(k *kit.Kit, i *collect.Info) error {
	var events uint64
	for _, n := range i.Metrics.Events {
		events += n
	}
	x, at := i.XDP, i.Interface
	if x == nil {
		x = &collect.FastInfo{}
	}
	if at == nil {
		at = &collect.InterfaceInfo{}
	}
	t := kit.NewTable(kit.Column{Title: "WHAT"}, kit.Column{Title: "COUNT", Right: true}, kit.Column{Title: "MEANING"})
	for n, row := range []struct {
		name    string
		value   uint64
		meaning string
	}{
		{"datagrams", i.Counts.Packets, "taken, and decoded"},
		{"  rejected", i.Counts.Rejected, "hold no report"},
		{"reports", i.Counts.Reports, ""},
		{"events", events, "values that are new, or further than --threshold"},
		{"kept", i.Next - i.First, "datagrams that radar packets and others answer from"},
		{"  of them parts", at.Parts, "rejected ones that are cut, or in fragments"},
		{"refused", i.Refused, "of sources that are not among those of --allow"},
		{"dropped", i.SocketDrops, "datagrams: the socket buffer was full"},
		{"dropped at XDP", x.QueueDrops, "reports: the queue to the collector was full"},
		{"waiting", i.Waiting, "bytes in sockets that are not taken yet"},
		{"other packets", at.Other, "looked at, and to no port of reports"},
		{"downs", at.Downs, "times that the interface was down"},
		{"taken at XDP", x.FastPath, "reports that said nothing new"},
		{"anomalous", i.Counts.Anomalous, "datagrams with anomalies: radar int decode -r shows them"},
		{"gaps", i.Gaps, "reports that sources have numbered and that did not come"},
		{"no packet", i.Counts.NoPacket, "reports that quote none"},
		{"alone", i.Counts.UnmatchedPostcards, "packets that one node alone has reported"},
		{"no room in tables", i.Metrics.Full, "values (--flows, --series)"},
		{"values left out", i.LeftOut, "that radar int metrics could show (--keep-metrics)"},
		{"sources forgotten", i.Forgotten, "there were too many to follow the numbers of all"},
		{"not kept", i.NotKept, "datagrams: the disk was full"},
		{"writes that failed", i.Unsaved, "the disk was full"},
		{"bugs", i.Bugs, "datagrams at which radar itself failed"},
	} {
		if row.value > 0 || n < 5 {
			t.Add(row.name, strconv.FormatUint(row.value, 10), row.meaning)
		}
	}
	return t.Flush(k.Out)
}
