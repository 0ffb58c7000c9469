// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/aggregate"
	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/record"
)

// packetPrinter prints records, one a line, in the format asked for.
type packetPrinter struct {
	out      io.Writer
	format   outputFormat
	location *time.Location
	table    *table
	csv      *csvWriter
	long     bool // CSV: a row for each hop
	shown    *shownNames
}

func newPacketPrinter(out io.Writer, format outputFormat, location *time.Location) *packetPrinter {
	columns := []column{
		{title: "TIME", min: 15},
		{title: "PROTO", min: 5},
		{title: "PACKET", min: 37},
		{title: "LEN", right: true, min: 5},
		{title: "SEGS", right: true},
		{title: "STATE", min: 9},
		{title: "LATENCY", right: true},
		{title: "PATH", min: 22},
		{title: "LOSS"},
	}
	if format == formatWide {
		columns = append([]column{
			{title: "ID", min: 21},
			{title: "GUID", min: 7},
			{title: "TTL", right: true},
			{title: "DSCP", right: true},
			{title: "IPID", right: true, min: 5},
		}, columns...)
	}
	return &packetPrinter{out: out, format: format, location: location, table: newTable(columns...), csv: newCSVWriter(out)}
}

// print writes the records and, before the first of them, the title.
func (p *packetPrinter) print(records []*record.Record) error {
	if p.format == formatJSON {
		for _, r := range records {
			if err := printJSON(p.out, r.JSON()); err != nil {
				return err
			}
		}
		return nil
	}
	if p.format == formatCSV {
		return p.printCSV(records)
	}
	for _, r := range records {
		p.table.add(p.cells(p.shown.record(r))...)
	}
	return p.table.flush(p.out)
}

func (p *packetPrinter) printCSV(records []*record.Record) error {
	if p.long {
		return p.printHops(records)
	}
	if err := csvTitle[record.Record](p.csv, "path"); err != nil {
		return err
	}
	for _, r := range records {
		p.csv.absent = r.Absent()
		if err := p.csv.row(r, [2]string{"path", pathText(r)}); err != nil {
			return err
		}
	}
	return p.csv.flush()
}

// hopRow is a hop of a packet, with what it takes to know the packet.
type hopRow struct {
	ID    string       `json:"id"`
	Time  string       `json:"time"`
	State record.State `json:"state"`
	Src   string       `json:"src"`
	Dst   string       `json:"dst"`
	Proto string       `json:"proto"`
	Sport *int         `json:"sport,omitempty"`
	Dport *int         `json:"dport,omitempty"`
	Index int          `json:"index"` // of the hop, from 0
	Hop   record.Hop   `json:"hop"`
}

// printHops prints a row for each hop.
func (p *packetPrinter) printHops(records []*record.Record) error {
	if err := csvTitle[hopRow](p.csv); err != nil {
		return err
	}
	for _, r := range records {
		for i, h := range r.Hops {
			if err := p.csv.row(&hopRow{r.ID, r.Time, r.State, r.Src, r.Dst, r.Proto, r.Sport, r.Dport, i, h}); err != nil {
				return err
			}
		}
	}
	return p.csv.flush()
}

func (p *packetPrinter) cells(r *record.Record) []string {
	wide := p.format == formatWide
	path := pathText(r)
	if wide {
		path = timedPathText(r)
	}
	latency := ""
	if r.LatencyNs != nil {
		latency = humanDuration(float64(*r.LatencyNs))
	}
	cells := []string{
		time.Unix(0, r.TNs).In(p.location).Format("15:04:05.000000"),
		r.Proto,
		packetText(r),
		strconv.Itoa(r.Len),
		strconv.Itoa(r.Segs),
		string(r.State),
		latency,
		path,
		lossText(r, wide),
	}
	if wide {
		cells = append([]string{r.ID, r.GUID,
			strconv.Itoa(r.TTL), strconv.Itoa(r.DSCP), idText(r)}, cells...)
	}
	return cells
}

// packetText says who sends what to whom: "10.0.1.1:4711 > 10.0.4.2:53".
func packetText(r *record.Record) string {
	text := endpoint(r.Src, r.Sport) + " > " + endpoint(r.Dst, r.Dport)
	if r.ICMPType != nil {
		text += " " + icmpText(r)
	}
	if r.ICMPID != nil {
		text += fmt.Sprintf(" id %d", *r.ICMPID)
	}
	if r.ICMPSeq != nil {
		text += fmt.Sprintf(" seq %d", *r.ICMPSeq)
	}
	if r.FragOff != nil {
		text += fmt.Sprintf(" frag %d", *r.FragOff)
	}
	return text
}

// endpoint joins an address and a port, if there is one.
func endpoint(addr string, port *int) string {
	if port == nil {
		return addr
	}
	return net.JoinHostPort(addr, strconv.Itoa(*port))
}

// The ICMP types that people meet, by IP version; others are numbers.
var icmpNames = map[int]map[int]string{
	4: {0: "reply", 3: "unreachable", 5: "redirect", 8: "echo", 11: "time-exceeded"},
	6: {1: "unreachable", 2: "too-big", 3: "time-exceeded", 128: "echo", 129: "reply"},
}

func icmpText(r *record.Record) string {
	if name, ok := icmpNames[r.IPVersion][*r.ICMPType]; ok {
		return name
	}
	return "type " + strconv.Itoa(*r.ICMPType)
}

// idText is the IP ID, or what IPv6 has in its place: the Identification of a fragment.
func idText(r *record.Record) string {
	switch {
	case r.IPVersion != 6:
		return strconv.Itoa(r.IPID)
	case r.FragID != nil:
		return strconv.Itoa(*r.FragID)
	}
	return ""
}

// pathText is the nodes in order: "h1 > r1 > h2". Where copies parted, each branch
// that did not arrive says so: "h1 > s1 > {h2, h3 ignored}".
func pathText(r *record.Record) string {
	steps := make([]record.Step, len(r.Hops))
	for i, hop := range r.Hops {
		steps[i] = record.Step{Text: hop.Node + outcomeText(hop.Outcome), Arrow: gapArrow(&hop), Prev: r.PrevOf(i), Same: r.SameAs(i)}
	}
	if _, again, ok := r.Loop(); ok {
		return record.PathText(steps[:again]) + loopMark + ttlEnd(r)
	}
	return truncatedMark(r, record.PathText(steps))
}

// outcomeText is how a branch ended, where it did not arrive.
func outcomeText(s record.State) string {
	switch s {
	case "", record.Delivered, record.Left:
		return ""
	case record.InFlight:
		return " in flight"
	}
	return " " + string(s)
}

// timedPathText adds to each node its ports and the time inside it, to a port the time in
// its queue, and to each link the time on it: "h1:e0 -3.4us> e0:r1(812ns):e1[2.1ms] -1.2us> e0:h2".
func timedPathText(r *record.Record) string {
	steps := make([]record.Step, len(r.Hops))
	for i, hop := range r.Hops {
		var b strings.Builder
		steps[i] = record.Step{Prev: r.PrevOf(i), Same: -1}
		steps[i].Arrow = gapArrow(&hop)
		if hop.LinkNs != nil && i > 0 {
			steps[i].Arrow = " -" + humanDuration(float64(*hop.LinkNs)) + "> "
		}
		if hop.InPort != "" {
			b.WriteString(hop.InPort + ":")
		}
		b.WriteString(hop.Node)
		if hop.NodeNs != nil {
			b.WriteString("(" + humanDuration(float64(*hop.NodeNs)) + ")")
		}
		if hop.Port != "" {
			b.WriteString(":" + hop.Port)
		}
		if hop.QueueNs != nil {
			b.WriteString("[" + humanDuration(float64(*hop.QueueNs)) + "]")
		}
		b.WriteString(saidText(&hop) + rewriteText(hop) + outcomeText(hop.Outcome))
		steps[i].Text = b.String()
	}
	return truncatedMark(r, record.PathText(steps))
}

// rewriteText shows the addresses that a node changed (NAT).
func rewriteText(hop record.Hop) string {
	var parts []string
	if hop.Src != "" || hop.Sport != nil {
		parts = append(parts, "src="+endpoint(hop.Src, hop.Sport))
	}
	if hop.Dst != "" || hop.Dport != nil {
		parts = append(parts, "dst="+endpoint(hop.Dst, hop.Dport))
	}
	if len(parts) == 0 {
		return ""
	}
	return "[" + strings.Join(parts, " ") + "]"
}

// truncatedMark shows that the history is not complete, unless the path says where.
func truncatedMark(r *record.Record, path string) string {
	if r.Unordered {
		path += " (order not known)"
	}
	if r.Truncated && !slices.ContainsFunc(r.Hops, func(h record.Hop) bool { return h.Gap }) {
		return path + aggregate.IncompleteMark
	}
	return path
}

// gapArrow leads to a hop before which others may be missing; "" if none are.
func gapArrow(h *record.Hop) string {
	if h.Gap {
		return record.GapArrow
	}
	return ""
}

// ttlEnd is ", TTL used up" where that is how the packet ended: a router got it with a TTL of 1,
// and did not send it on.
func ttlEnd(r *record.Record) string {
	if !answer.TTLUsedUp(r) {
		return ""
	}
	return ", " + ttlName(r) + " used up"
}

// lossText says where and why a packet was lost, or freed after delivery: that was at
// the end of its path, so that the reason will do unless all is asked for.
func lossText(r *record.Record, wide bool) string {
	drop := r.LocalDrop
	switch {
	case len(r.Losses) > 0:
		return branchLossText(r, wide)
	case r.Loss != nil:
		return lossPlace(r.Loss)
	case drop == nil:
		return ""
	case wide || drop.Reason == "" && drop.Function == "":
		return "after delivery: " + lossPlace(drop)
	case drop.Reason == "" || drop.Reason == "NOT_SPECIFIED" && drop.Function != "":
		return "after delivery: " + drop.Function
	}
	return "after delivery: " + drop.Reason
}

// branchLossText lists where copies were lost, or freed after delivery; the others of
// those only if all is asked for.
func branchLossText(r *record.Record, wide bool) string {
	var parts []string
	for i := range r.Losses {
		l := &r.Losses[i]
		switch {
		case !l.AfterDelivery:
			parts = append(parts, lossPlace(&l.Loss))
		case wide:
			parts = append(parts, "after delivery: "+lossPlace(&l.Loss))
		}
	}
	return strings.Join(parts, "; ")
}

// lossPlace is "r2/e1 queue QDISC_DROP (tbf, __dev_queue_xmit)".
func lossPlace(l *record.Loss) string {
	text := l.Node
	if l.Port != "" {
		text += "/" + l.Port
	}
	text += " " + string(l.At)
	if l.Reason != "" {
		text += " " + l.Reason
	}
	var more []string
	for _, s := range []string{l.Qdisc, l.Function} {
		if s != "" {
			more = append(more, s)
		}
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text
}

// saidText is what a switch has said of its queue and itself: " {queue 0: 12}".
func saidText(h *record.Hop) string {
	var parts []string
	if depth, ok := h.INT["queue_occ"]; ok {
		parts = append(parts, fmt.Sprintf("queue %d: %d", h.INT["queue_id"], depth))
	}
	if latency, ok := h.INT["hop_latency"]; ok {
		parts = append(parts, fmt.Sprintf("latency %d", latency))
	}
	if len(parts) == 0 {
		return ""
	}
	return " {" + strings.Join(parts, ", ") + "}"
}
