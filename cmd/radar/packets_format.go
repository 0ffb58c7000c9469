// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// packetPrinter prints records, one a line, in the format asked for.
type packetPrinter struct {
	out      io.Writer
	format   outputFormat
	location *time.Location
	table    *table
	csv      *csvWriter
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
		p.table.add(p.cells(r)...)
	}
	return p.table.flush(p.out)
}

func (p *packetPrinter) printCSV(records []*record.Record) error {
	if err := csvTitle[record.Record](p.csv); err != nil {
		return err
	}
	for _, r := range records {
		p.csv.absent = nil
		if r.Src == "" { // the header is not known, as in record.JSON
			p.csv.absent = []string{"ttl", "dscp", "ecn", "ip_id"}
		}
		if err := p.csv.row(r); err != nil {
			return err
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
			strconv.Itoa(r.TTL), strconv.Itoa(r.DSCP), strconv.Itoa(r.IPID)}, cells...)
	}
	return cells
}

// packetText says who sends what to whom: "10.0.1.1:4711 > 10.0.4.2:53".
func packetText(r *record.Record) string {
	text := endpoint(r.Src, r.Sport) + " > " + endpoint(r.Dst, r.Dport)
	if r.ICMPType != nil {
		text += " " + icmpText(*r.ICMPType)
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
	if strings.Contains(addr, ":") {
		addr = "[" + addr + "]"
	}
	return addr + ":" + strconv.Itoa(*port)
}

// icmpText names the ICMP types that people meet; others are numbers.
func icmpText(icmpType int) string {
	switch icmpType {
	case 0:
		return "reply"
	case 3:
		return "unreachable"
	case 5:
		return "redirect"
	case 8:
		return "echo"
	case 11:
		return "time-exceeded"
	}
	return "type " + strconv.Itoa(icmpType)
}

// pathText is the nodes in order: "h1 > r1 > h2". A branch (a flooded packet)
// starts again at the node where it parted: "h1 > s1 > h2, s1 > h3".
func pathText(r *record.Record) string {
	var b strings.Builder
	for i, hop := range r.Hops {
		b.WriteString(hopSeparator(r, i, " > "))
		b.WriteString(hop.Node)
	}
	return truncatedMark(r, b.String())
}

// timedPathText adds to each node its ports and the time inside it, and to each
// link the time on it: "h1:e0 -3.4us> e0:r1(812ns):e1 -1.2us> e0:h2".
func timedPathText(r *record.Record) string {
	var b strings.Builder
	for i, hop := range r.Hops {
		arrow := " > "
		if hop.LinkNs != nil && i > 0 {
			arrow = " -" + humanDuration(float64(*hop.LinkNs)) + "> "
		}
		b.WriteString(hopSeparator(r, i, arrow))
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
		b.WriteString(rewriteText(hop))
	}
	return truncatedMark(r, b.String())
}

// hopSeparator stands before hop i: nothing, the arrow, or the start of a branch.
func hopSeparator(r *record.Record, i int, arrow string) string {
	prev := r.Hops[i].Prev
	switch {
	case i == 0:
		return ""
	case prev == nil || *prev < 0 || *prev >= i:
		return arrow
	default:
		return ", " + r.Hops[*prev].Node + arrow
	}
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

// truncatedMark shows that the history is not complete.
func truncatedMark(r *record.Record, path string) string {
	if r.Truncated {
		return path + " ..."
	}
	return path
}

// lossText says where and why a packet was lost, or freed after delivery: that was at
// the end of its path, so that the reason will do unless all is asked for.
func lossText(r *record.Record, wide bool) string {
	drop := r.LocalDrop
	switch {
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
