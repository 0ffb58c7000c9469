// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/vnetradar/radar/pkg/telemetry/control"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// radarLayout is that of radar's own program, and of every other one that includes p4/include/int.p4: docs/p4.md.
type radarLayout struct{ o *options }

var radarTables = []Table{
	{Name: "int.settings", Stage: Sinks, Guards: true},
	{Name: "int.collectors", Stage: Sinks},
	{Name: "int.reporting", Stage: Sinks},
	{Name: "int.egress_ports", Stage: Sinks, Guards: true},
	{Name: "int.ingress_ports", Stage: Sources},
	{Name: "int.watchlist", Stage: Watchlist},
}

// Tables implements Layout.
func (radarLayout) Tables() []Table { return radarTables }

// Sessions implements Layout.
func (l radarLayout) Sessions() []uint32 {
	if l.o.Collector.none {
		return nil
	}
	return []uint32{l.o.Collector.Session}
}

// Needs implements Layout.
func (radarLayout) Needs() []string {
	return []string{"int.node", "int.off", "int.done", "int.skipped"}
}

// Abilities implements Layout.
func (radarLayout) Abilities(p *Program) control.Abilities {
	return control.Abilities{
		Modes: []control.Mode{control.MD, control.MD10, control.MX, control.XD}, Instructions: 0xff00,
		Reports: []string{node.Report20, node.Report10}, MarkDSCP: true, MarkPort: true,
		Sampling: true, MaxEntries: p.Size("int.watchlist"), Postcards: true,
	}
}

// doneNames and skippedNames are the indexes of int.done and int.skipped. They have the names of node.Done and
// node.Skipped where they count the same.
var (
	doneNames    = []string{"source", "transit", "sink", "flow_reports", "queue_reports", "suppressed", "discarded", "reports", "no_collector"}
	skippedNames = []string{
		"", "not_watched", "not_sampled", "not_ip", "not_tcp_udp", "fragment", "extension", "too_short", "bad_length",
		"bad_checksum", "report", "foreign", "not_int", "mtu", "hops", "domain_instructions", "stack_full", "no_role",
		"not_source", "no_instruction", "md10_marked_by_port",
	}
)

// Counters implements Layout.
func (radarLayout) Counters() map[string][]string {
	return map[string][]string{"int.done": doneNames, "int.skipped": skippedNames}
}

const noL2 = "0xffffffff" // no level-2 port id is set

// Commands implements Layout.
func (l radarLayout) Commands(want *control.State) (lines []string, err error) {
	addf := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	addf("table_set_default int.reporting %s", l.o.Report)
	if len(want.Ports) == 0 {
		addf("table_set_default int.settings int.off")
		return lines, nil
	}
	mark, err := node.ParseMark(want.Mark)
	if err != nil {
		return nil, err
	}
	session := uint32(0)
	if c := &l.o.Collector; !c.none {
		if !want.Collector.Addr().Is4() {
			return nil, fmt.Errorf("reports of P4 switches go over IPv4, and the collector is %v", want.Collector)
		}
		action := map[string]string{node.Report20: "int.collector_20", node.Report10: "int.collector_10"}[want.Report]
		if action == "" {
			return nil, fmt.Errorf("reports of version %q: use %s or %s", want.Report, node.Report20, node.Report10)
		}
		session = c.Session
		addf("table_add int.collectors %s %d => %s %s %v %v %d %d %d", action, c.Port, c.SrcMAC, c.DstMAC, c.Src, want.Collector.Addr(), c.SrcPort, want.Collector.Port(), want.Quote)
		addf("mirroring_add %d %d", session, c.Port)
	}
	addf("table_set_default int.settings int.node %d %d 0x%x 0x%x %d %d %d %d %d", want.NodeID, l.o.HardwareID, mark.DSCP, mark.Mask, mark.Port,
		want.Collector.Port(), session, b2i(l.o.ReportDrops), l.o.DropInterval.Microseconds())
	for _, p := range want.Ports {
		number, err := l.o.PortNumber(p.Name)
		if err != nil {
			return nil, err
		}
		switch p.Role {
		case control.Edge:
			addf("table_add int.egress_ports int.sink %d => %d %s", number, l.o.CongestedAt, noL2)
			addf("table_add int.ingress_ports int.source %d => %d %s", number, b2i(l.o.Foreign == "drop"), noL2)
		case control.Transit:
			mtu := p.MTU
			if mtu == 0 {
				mtu = l.o.MTU
			}
			addf("table_add int.egress_ports int.transit_out %d => %d %d %s", number, mtu, l.o.CongestedAt, noL2)
			addf("table_add int.ingress_ports int.transit_in %d => %s", number, noL2)
		}
	}
	for i := range want.Entries {
		line, err := watch(&want.Entries[i], want.DomainID)
		if err != nil {
			return nil, fmt.Errorf("intent %s: %w", want.Entries[i].Intent, err)
		}
		addf("%s %d", line, i+1)
	}
	return lines, nil
}

// watch is an entry of the watchlist, without its priority.
func watch(e *control.Entry, domain uint16) (string, error) {
	k, err := keys(&e.Slice)
	if err != nil {
		return "", err
	}
	action := ""
	hops, sample := e.Hops, max(e.Sample, 1)
	if hops == 0 {
		hops = control.DefaultHops
	}
	switch e.Mode {
	case control.MD:
		action = fmt.Sprintf("0x%x %d %d %d", e.Instructions, domain, hops, sample)
	case control.MD10:
		action = fmt.Sprintf("0x%x %d %d", e.Instructions, hops, sample)
	case control.MX, control.XD:
		action = fmt.Sprintf("0x%x %d %d", e.Instructions, domain, sample)
	default:
		return "", fmt.Errorf("mode %q is not one of P4 switches", e.Mode)
	}
	name := map[control.Mode]string{control.MD: "md", control.MD10: "md10", control.MX: "mx", control.XD: "xd"}[e.Mode]
	return fmt.Sprintf("table_add int.watchlist int.watch_%s 0&&&0 %s %s %s %s %s %s => %s", name, k.src, k.dst, k.proto, k.sport, k.dport, k.dscp, action), nil
}

// key is a slice as ternary keys: VALUE&&&MASK each. Addresses have 128 bits, those of IPv4 as RFC 4291 (2.5.5.2) writes
// them.
type key struct {
	src, dst            string
	proto, sport, dport string
	dscp                string
}

// anyValue matches everything.
const anyValue = "0&&&0"

// keys makes keys of a slice of which no field has more than one value.
func keys(s *control.Slice) (k key, err error) {
	if s.Expr != "" {
		return k, fmt.Errorf("tables do not match expressions such as %q", s.Expr)
	}
	k = key{anyValue, anyValue, anyValue, anyValue, anyValue, anyValue}
	if s.Proto != "" {
		number := map[string]int{"tcp": 6, "udp": 17}[s.Proto]
		if number == 0 {
			return k, fmt.Errorf("protocol %q: use tcp or udp", s.Proto)
		}
		k.proto = fmt.Sprintf("%d&&&0xff", number)
	}
	if s.DSCP != nil {
		k.dscp = fmt.Sprintf("%d&&&0x3f", *s.DSCP)
	}
	address := Field{Bits: 128, Kind: Ternary}
	for _, f := range []struct {
		list []string
		to   *string
		make func(string) (string, error)
	}{{s.Src, &k.src, address.Address}, {s.Dst, &k.dst, address.Address}, {s.Sport, &k.sport, portKey}, {s.Dport, &k.dport, portKey}} {
		switch len(f.list) {
		case 0:
		case 1:
			if *f.to, err = f.make(f.list[0]); err != nil {
				return k, err
			}
		default:
			return k, fmt.Errorf("%s: one entry of a table matches one value", strings.Join(f.list, ", "))
		}
	}
	return k, nil
}

// portKey makes a key of a port, or of a range that is a prefix, such as 1024-2047.
func portKey(text string) (string, error) {
	low, high, isRange := strings.Cut(text, "-")
	a, err := strconv.ParseUint(low, 10, 16)
	if err != nil {
		return "", fmt.Errorf("%q is no port", text)
	}
	b := a
	if isRange {
		if b, err = strconv.ParseUint(high, 10, 16); err != nil || b < a {
			return "", fmt.Errorf("%q is no range of ports", text)
		}
	}
	size := b - a + 1
	if size&(size-1) != 0 || a%size != 0 {
		return "", fmt.Errorf("ports %s are no prefix: a key of a table cannot match them", text)
	}
	mask := 0xffff &^ (size - 1)
	if mask == 0 {
		return anyValue, nil
	}
	return fmt.Sprintf("%d&&&0x%x", a, mask), nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
