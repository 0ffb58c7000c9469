// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/answer/status"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/agent"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/words"
)

func printStatus(k *kit.Kit, v *status.View) error {
	w := k.Out
	o := v.Options
	lease := leaseText(v)
	process := "none"
	if v.Agent.Alive {
		process = fmt.Sprintf("process %d", v.Agent.PID)
	}
	losses := v.LossHook
	if losses == "" {
		losses = "no hook in this kernel: losses show as expired"
	}
	head := kit.NewTable(kit.Column{Title: "DOMAIN"}, kit.Column{Title: v.Domain})
	head.Add("attached", v.Attached.In(k.Location).Format(time.DateTime))
	head.Add("agent", process)
	if v.Recorder != nil {
		head.Add("recorder", recorderText(v.Recorder))
	}
	head.Add("lease", lease)
	hooks := o.Hook + ", losses by " + losses
	if v.QueueHook != "" {
		hooks += ", queues by " + v.QueueHook
	}
	head.Add("hook", hooks)
	if o.Watch != "" {
		head.Add("watch", o.Watch)
	}
	head.Add("guid bits", fmt.Sprintf("%s, carried in %s", o.GUIDBits, o.Carry))
	head.Add("ipv6", ipv6Text(o.IPv6, k.Shown.Texts(o.LabelUsers), v.IPv6Held))
	head.Add("slots", fmt.Sprintf("%d of %d bytes, timeout %v", o.Slots, o.SlotBytes, time.Duration(o.TimeoutNs)))
	head.Add("memory", v.Memory.Memory.String())
	if k.Output == kit.FormatWide {
		addCost(v.Cost, head)
	}
	if v.WatchContainers {
		head.Add("containers", followText(v.Selectors, true))
	}
	if err := head.Flush(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	if err := printNodes(k, v.Nodes, true); err != nil {
		return err
	}
	printHeaderNodes(w, v.Nodes)
	printRedirecting(w, v)
	printSwitches(w, v.Nodes)
	fmt.Fprintln(w)
	if err := printTotals(k, v.Totals, v.Counters); err != nil {
		return err
	}
	if err := w.Flush(); err != nil { // notes stand below
		return err
	}
	for _, note := range v.Notes {
		fmt.Fprintf(k.Stderr, "note: %s\n", note)
	}
	return nil
}

// leaseText says how long sources go on.
func leaseText(v *status.View) string {
	if v.Lease.LeftNs == nil {
		return "never ends"
	}
	left := words.Duration(float64(*v.Lease.LeftNs)) + " left"
	switch {
	case !v.Lease.Valid:
		return "over: no packet is marked"
	case slices.ContainsFunc(v.Agent.Troubles, func(t resident.Trouble) bool { return t.What == resident.RenewLease }):
		return left + ", the agent cannot renew it"
	case v.Agent.Alive:
		return left + ", the agent renews it"
	}
	return left + ", nobody renews it"
}

// heldText is what is said of IPv6 where nothing has it.
const heldText = "not measured yet: no node has an address beyond link-local"

// ipv6Text says how IPv6 is measured, and why.
func ipv6Text(mode string, users []string, held bool) string {
	switch {
	case held:
		return heldText
	case mode == program.IPv6Off:
		return "not measured"
	case mode == program.IPv6Label:
		return "in hop limit and flow label"
	case len(users) > 0:
		return "by key, the flow label is used by " + strings.Join(users, ", ")
	}
	return "by key"
}

// printRedirecting names the nodes that redirect packets to themselves, and says what is
// known of those.
func printRedirecting(w io.Writer, v *status.View) {
	var names []string
	for _, n := range v.Nodes {
		if n.Redirects && n.Header == "" && v.Options.Carry != program.CarryHeader {
			names = append(names, n.Name)
		}
	}
	switch {
	case len(names) == 0:
	case v.LocalHook == "" || !v.Agent.Alive:
		fmt.Fprintf(w, "note: packets that rules of %s redirect to the node itself show as expired\n", strings.Join(names, ", "))
	default:
		fmt.Fprintf(w, "note: packets that rules of %s redirect to the node itself are seen at %s\n", strings.Join(names, ", "), v.LocalHook)
	}
}

// printTotals prints what became of the packets, then every counter that is not 0.
func printTotals(k *kit.Kit, totals agent.Totals, counters []status.Counter) error {
	t := kit.NewTable(kit.Column{Title: "PACKETS"}, kit.Column{Title: "COUNT", Right: true})
	for _, row := range []struct {
		name  string
		value uint64
	}{
		{"seen", totals.Seen}, {"  delivered", totals.Delivered}, {"  left", totals.Left}, {"  lost", totals.Lost},
		{"  expired", totals.Expired}, {"  ignored", totals.Ignored}, {"  in flight", totals.InFlight}, {"  not measured", totals.NotMeasured},
		{"  unread", totals.Unread},
	} {
		t.Add(row.name, strconv.FormatUint(row.value, 10))
	}
	if totals.Unaccounted != 0 {
		t.Add("  unaccounted", strconv.FormatInt(totals.Unaccounted, 10))
	}
	if err := t.Flush(k.Out); err != nil {
		return err
	}
	return printCounters(k, counters)
}

func printCounters(k *kit.Kit, counters []status.Counter) error {
	columns := []kit.Column{{Title: "COUNTER"}, {Title: "COUNT", Right: true}}
	wide := k.Output == kit.FormatWide
	if wide {
		columns = append(columns, kit.Column{Title: "MEANING"})
	}
	t := kit.NewTable(columns...)
	for _, c := range counters {
		if c.Value == 0 {
			continue
		}
		cells := []string{c.Name, strconv.FormatUint(c.Value, 10)}
		if wide {
			cells = append(cells, c.Help)
		}
		t.Add(cells...)
	}
	if t.Empty() {
		return nil
	}
	fmt.Fprintln(k.Out)
	return t.Flush(k.Out)
}

func recorderText(r *status.Recorder) string {
	text := fmt.Sprintf("process %d, into %s", r.PID, r.Dir)
	if r.LastError != "" {
		text += "; last error: " + r.LastError
	}
	return text
}
