// SPDX-License-Identifier: Apache-2.0

package inband

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/intwire"
	"github.com/vnetradar/radar/pkg/record"
)

func printJSON(k *kit.Kit, m *intwire.Message, extra ...intwire.Item) error {
	_, err := fmt.Fprintln(k.Out, kit.Face.Render(string(m.AppendJSON(nil, extra...))))
	return err
}

// printMessage prints what a packet holds for people: a line for each header with the names
// that the JSON has, a table of the hops.
func printMessage(k *kit.Kit, m *intwire.Message) error {
	p := printer{w: k.Out, wide: k.Output == kit.FormatWide}
	if m.Profile != nil {
		p.line("PROFILE", fmt.Sprintf("%s (%s), found by %s", m.Profile.Name, m.Profile.Title, markWords(m)))
	}
	if text := packetWords(&m.Packet); text != "" {
		p.line("PACKET", text)
	}
	tree := m.Tree()
	for _, item := range tree {
		switch {
		case item.Name == "carrier": // and what else is said of INT without a list
			p.line("INT", plainWords(tree, "profile", "found_by"))
		case item.Name == "packet", item.Name == "anomalies", item.Kind <= intwire.Text:
		default:
			p.item(item, "")
		}
	}
	colored := k.Colored()
	for i, anomaly := range m.Anomalies {
		title := ""
		if i == 0 {
			title = "ANOMALIES"
		}
		p.line(title, kit.Yellow.Paint(colored, kit.Face.Render(anomaly.String())))
	}
	return p.err
}

// plainWords are the values of items that are neither objects nor lists.
func plainWords(items []intwire.Item, but ...string) string {
	var words []string
	for _, item := range items {
		if item.Kind <= intwire.Text && !slices.Contains(but, item.Name) {
			words = append(words, item.Name+" "+item.Text)
		}
	}
	return strings.Join(words, ", ")
}

// markWords says by what INT or a report was found.
func markWords(m *intwire.Message) string {
	switch m.Mark {
	case intwire.ByDSCP:
		return fmt.Sprintf("DSCP 0x%02x", m.Packet.DSCP)
	case intwire.ByPort:
		return fmt.Sprintf("port %d", m.Packet.DstPort)
	case intwire.ByMarker:
		return "a probe marker"
	case intwire.ByCarrier:
		return "the tunnel's code for INT"
	case intwire.ByReport:
		return "the report's F flag"
	case intwire.ByProfile:
		return "--profile"
	}
	return "its form alone"
}

// packetWords is the packet around it all in one line.
func packetWords(p *intwire.Packet) string {
	src, dst := "", ""
	if p.Src.IsValid() {
		src, dst = p.Src.String(), p.Dst.String()
	}
	if p.HasPorts {
		if p.Version == 6 {
			src, dst = "["+src+"]", "["+dst+"]"
		}
		src, dst = fmt.Sprintf("%s:%d", src, p.SrcPort), fmt.Sprintf("%s:%d", dst, p.DstPort)
	}
	switch {
	case src == "":
		return ""
	case p.Version == 0: // the bytes begin with UDP
		return fmt.Sprintf("udp %d > %d", p.SrcPort, p.DstPort)
	}
	return fmt.Sprintf("%s > %s %s, TTL %d, DSCP 0x%02x", src, dst, record.ProtoName(p.Proto), p.TTL, p.DSCP)
}

// printer prints items of a decoded packet.
type printer struct {
	w    io.Writer
	wide bool
	err  error
}

func (p *printer) line(title, text string) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf("%-10s %s", title, text), " "))
	}
}

// item prints one item: an object as a line, hops as a table, a list of others one by one.
func (p *printer) item(item intwire.Item, indent string) {
	title := indent + strings.ToUpper(item.Name)
	switch {
	case item.Kind == intwire.Number, item.Kind == intwire.Text:
		p.line(title, item.Text)
	case item.Kind == intwire.Object:
		p.object(title, item.Sub, indent)
	case item.Name == "hops_top_first":
		p.hops(item.Sub, indent)
	default:
		names := map[string]string{"reports": "REPORT", "tlvs": "TLV", "more": "INT"}
		for i, sub := range item.Sub {
			p.object(fmt.Sprintf("%s%s %d", indent, names[item.Name], i+1), sub.Sub, indent)
		}
	}
}

// object prints the plain values of an object in a line, then what lies within.
func (p *printer) object(title string, items []intwire.Item, indent string) {
	var words []string
	for _, item := range items {
		if item.Kind <= intwire.Text && (p.wide || !quiet(item, items)) {
			words = append(words, item.Name+" "+item.Text)
		}
	}
	p.line(title, strings.Join(words, ", "))
	for _, item := range items {
		if item.Kind > intwire.Text {
			p.item(item, indent+"  ")
		}
	}
}

// quiet says whether an item says nothing: a flag that is not set, the fields of a domain
// where there is none.
func quiet(item intwire.Item, among []intwire.Item) bool {
	switch item.Name {
	case "D", "E", "M", "C", "Q", "F", "I", "G", "rep":
		return item.Text == "0"
	case "domain_specific_id", "domain":
		return item.Text == "0x0000"
	case "ds_instruction", "ds_flags", "ds_md_bits", "ds_md_status":
		return item.Text == "0x0000" && slices.ContainsFunc(among, func(i intwire.Item) bool {
			return (i.Name == "domain_specific_id" || i.Name == "domain") && i.Text == "0x0000"
		})
	}
	return false
}

// hops prints a table with a column for each value that any hop has, the newest hop first.
func (p *printer) hops(hops []intwire.Item, indent string) {
	if len(hops) == 0 {
		p.line(indent+"HOPS", "none")
		return
	}
	var names []string
	for _, hop := range hops {
		for _, item := range hop.Sub {
			if !slices.Contains(names, item.Name) {
				names = append(names, item.Name)
			}
		}
	}
	columns := []kit.Column{{Title: "HOP", Right: true}}
	for _, name := range names {
		columns = append(columns, kit.Column{Title: strings.ToUpper(name), Right: true})
	}
	t := kit.NewTable(columns...)
	for i, hop := range hops {
		cells := []string{fmt.Sprint(len(hops) - i)}
		for _, name := range names {
			cell := "-"
			for _, item := range hop.Sub {
				if item.Name == name {
					cell = item.Text
				}
			}
			cells = append(cells, cell)
		}
		t.Add(cells...)
	}
	var b bytes.Buffer
	if err := t.Flush(&b); err != nil {
		p.err = err
	}
	p.line(indent+"HOPS", "newest first; hop 1 is next to the source")
	for row := range strings.Lines(b.String()) {
		p.line("", strings.TrimRight(row, "\n"))
	}
}
