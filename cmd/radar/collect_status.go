// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vnetradar/radar/pkg/collect"
)

func newCollectStatusCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how a collector does",
		Long: `Show how the domain's collector does, or how the last one did: what came, what of it was
no report or refused, what found no room, and what became of what outputs were given.

The numbers of one that runs are at most a second old. Those that are 0 are shown in JSON
only, but for the first ones.`,
		Example: "  radar collect status\n  radar collect status -o json | jq .counts",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.collectStatus() },
	}
}

func (a *app) collectStatus() error {
	i, err := collect.Load(a.domain)
	if err != nil {
		return fmt.Errorf("domain %s: %w (radar collect)", a.domain, err)
	}
	runs, err := i.Runs(a.domain)
	if err != nil {
		return err
	}
	if !runs && i.PID != 0 {
		a.notef("the collector was process %d, and did not end as it should: the numbers are its last ones", i.PID)
		i.PID = 0
	}
	if a.output == formatJSON {
		return printJSON(a.out, i)
	}
	return a.printCollectStatus(i)
}

func (a *app) printCollectStatus(i *collect.Info) error {
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
		newest = i.Newest.In(a.location).Format(time.DateTime)
	}
	head := newTable(column{title: "DOMAIN"}, column{title: a.domain})
	head.add("collector", process)
	head.add("since", i.Since.In(a.location).Format(time.DateTime))
	head.add("ports", strings.Join(ports, ", "))
	if i.Interface != nil {
		head.add("interface", i.Interface.Device)
	}
	if i.XDP != nil {
		head.add("XDP", i.XDP.Device+", "+i.XDP.Mode)
	}
	head.add("newest datagram", newest)
	if err := head.flush(a.out); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	if err := a.printCollectCounts(i); err != nil || len(i.Outputs) == 0 {
		return err
	}
	fmt.Fprintln(a.out)
	t := newTable(column{title: "OUTPUT"}, column{title: "WAITING", right: true}, column{title: "WRITTEN", right: true},
		column{title: "SHED", right: true}, column{title: "GIVEN UP", right: true}, column{title: "RETRIES", right: true})
	for _, o := range i.Outputs {
		n := func(n uint64) string { return strconv.FormatUint(n, 10) }
		t.add(o.Name, strconv.Itoa(o.Waiting), n(o.Written), n(o.ShedEvents+o.ShedValues), n(o.GivenUp), n(o.Retries))
	}
	return t.flush(a.out)
}

func (a *app) printCollectCounts(i *collect.Info) error {
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
	t := newTable(column{title: "WHAT"}, column{title: "COUNT", right: true}, column{title: "MEANING"})
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
		{"found no room", i.SocketDrops, "datagrams: the socket was full"},
		{"found no room at XDP", x.QueueDrops, "reports: the way up was full"},
		{"waiting", i.Waiting, "bytes in sockets that are not taken yet"},
		{"other packets", at.Other, "looked at, and to no port of reports"},
		{"downs", at.Downs, "times that the interface was down"},
		{"taken at XDP", x.FastPath, "reports that said nothing new"},
		{"odd", i.Counts.Anomalous, "datagrams with doubts: radar int decode -r shows them"},
		{"gaps", i.Gaps, "reports that sources have numbered and that did not come"},
		{"no packet", i.Counts.NoPacket, "reports that quote none"},
		{"alone", i.Counts.UnmatchedPostcards, "packets that one node alone has reported"},
		{"no room in tables", i.Metrics.Full, "values (--flows, --series)"},
		{"values left out", i.LeftOut, "that radar metrics could show (--keep-metrics)"},
		{"sources forgotten", i.Forgotten, "there were too many to follow the numbers of all"},
		{"not kept", i.NotKept, "datagrams: the disk was full"},
		{"writes that failed", i.Unsaved, "the disk was full"},
		{"bugs", i.Bugs, "datagrams at which radar itself failed"},
	} {
		if row.value > 0 || n < 5 {
			t.add(row.name, strconv.FormatUint(row.value, 10), row.meaning)
		}
	}
	return t.flush(a.out)
}
