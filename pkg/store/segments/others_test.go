// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/servers"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
)

// TestOthersRead: DuckDB and pyarrow, which share no code with radar, read the values that were added.
func TestOthersRead(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("needs Python: make test runs it")
	}
	need.Tree(t) // Python reads testdata
	python := servers.Python(t, "records")
	dir, of := t.TempDir(), &testScope{offset: base}
	w := create(t, dir, quiet)
	var all []*Packet
	for g, i := newGenerator(7), 0; i < 3000; i++ {
		p := g.packet()
		if err := w.Add(p, of); err != nil {
			t.Fatal(err)
		}
		if all = append(all, p); i == 1000 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	byTime(all)
	for _, engine := range []string{"duckdb", "pyarrow"} {
		cmd := exec.Command(python, "testdata/read.py", engine, filepath.Join(dir, "*", "packets-*.parquet"))
		var problem strings.Builder
		cmd.Stderr = &problem
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s", engine, err, problem.String())
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != len(all) {
			t.Fatalf("%s: %d packets, want %d", engine, len(lines), len(all))
		}
		for i, line := range lines {
			want := expected(all[i], of)
			got := make(map[string]any)
			if err := numbersOf(line, &got); err != nil {
				t.Fatal(err)
			}
			for name := range got {
				if _, ok := want[name]; !ok {
					delete(got, name)
				}
			}
			text, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			plain := make(map[string]any)
			if err := numbersOf(string(text), &plain); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain, got); diff != "" {
				t.Fatalf("%s: packet %d: %s", engine, i, diff)
			}
		}
	}
}

func numbersOf(text string, to any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

// when is a value, or nothing.
func when(is bool, v any) any {
	if !is {
		return nil
	}
	return v
}

func isLost(p *Packet) bool { return p.State == record.Lost || p.Missing }

func known(ns int64) any { return when(ns != packet.NoTime, ns) }

// expected are columns of a packet, made of its fields alone.
func expected(p *Packet, of packet.Scope) map[string]any {
	tcp, tuple := p.HasTCP, p.HasTuple
	version := 4
	if p.IPv6 {
		version = 6
	}
	offset, fragment := p.Offset()
	m := map[string]any{
		"t": p.UnixNs(of), "state": p.State, "source": p.Source, "host": p.Host, "epoch": 0xabc, "pos": p.Pos, "ip_version": version,
		"src": when(tuple, p.Src.Text(p.IPv6)), "dst": when(tuple, p.Dst.Text(p.IPv6)), "proto": record.ProtoName(p.Proto),
		"icmp_type": when(p.IsICMP() || p.ICMP != [2]uint8{}, p.ICMP[0]),
		"icmp_id":   when(p.IsEcho(), p.SrcPort), "icmp_seq": when(p.IsEcho(), p.DstPort),
		"tcp_seq": when(tcp, p.TCP.Seq), "tcp_ack": when(tcp && (p.TCP.Flags&packet.TCPAck != 0 || p.TCP.Ack != 0), p.TCP.Ack), "tcp_flags": when(tcp, p.TCP.Flags),
		"tcp_window": when(tcp, p.TCP.Window), "tcp_payload": when(tcp, p.TCP.Payload),
		"len": p.Len, "segs": p.Segs, "ttl": when(tuple, p.TTL), "dscp": when(tuple, p.TOS>>2), "ecn": when(tuple, p.TOS&3),
		"ttl_sent": when(p.SentTTL != p.TTL, p.SentTTL), "dscp_sent": when(p.SentTOS>>2 != p.TOS>>2, p.SentTOS>>2),
		"ip_id": when(tuple && !p.IPv6, p.Packet.ID), "frag_off": when(fragment, offset), "flow_label": when(tuple && p.IPv6, p.Label),
		"frag_id": when(p.FragID != 0, p.FragID), "latency_ns": when(!isLost(p), known(p.LatencyNs)), "lost_after_ns": when(isLost(p), known(p.LatencyNs)),
		"id": when(p.Source == record.INT, p.ID), "inner_pos": when(p.Packet.Inner != 0, p.Packet.Inner),
		"lost": when(p.Lost, true), "missing": when(p.Missing, true), "local_drop": when(p.LocalDrop, true), "truncated": when(p.Truncated, true),
	}
	if p.HasPorts() {
		m["sport"], m["dport"] = p.SrcPort, p.DstPort
	}
	if p.Lost || p.Missing || p.LocalDrop {
		if p.Nodes == nil {
			m["loss_node"] = of.NodeName(p.Loss.Node)
		}
		m["loss_port"], m["loss_at"] = of.PortName(p.Loss.Port), p.Loss.At
		m["loss_reason"], m["loss_qdisc"], m["loss_function"], m["loss_at_ns"] = p.Loss.Reason, p.Loss.Qdisc, p.Loss.Function.Name(), known(p.Loss.AtNs)
	} else {
		m["loss_node"], m["loss_reason"] = nil, nil
	}
	expectLists(m, p, of)
	return m
}

// expectLists adds hops, losses of branches, and what nodes have said.
func expectLists(m map[string]any, p *Packet, of packet.Scope) {
	list := []any{}
	for i, h := range p.Hops {
		name := of.NodeName(h.Node)
		if p.Nodes != nil {
			name = p.Nodes[i]
		}
		link := p.LinkNs(i)
		if p.Links != nil {
			link = p.Links[i]
		}
		in, out := of.PortName(h.In), of.PortName(h.Out)
		hop := map[string]any{
			"node": name, "in_port": when(in != "", in), "port": when(out != "", out), "link_ns": known(link), "node_ns": known(h.NodeNs()), "queue_ns": known(h.QueueNs()),
			"prev": when(p.Prev(i) != i-1, p.Prev(i)), "copy": when(h.Copy, true), "gap": when(h.Gap, true), "outcome": when(h.Outcome != "", h.Outcome),
			"src": when(h.Changed, h.Tuple.Src.Text(p.IPv6)), "dst": when(h.Changed, h.Tuple.Dst.Text(p.IPv6)), "sport": when(h.Changed, h.Tuple.SrcPort),
			"dport": when(h.Changed, h.Tuple.DstPort), "address_moved": when(h.Moved, true), "unread": when(h.Unread, true),
			"queue_unseen": when(h.QueueUnseen, true),
			"in_ns":        nil, "out_ns": nil, "dequeue_ns": nil,
		}
		if m["stamps"] = when(exactly(p), true); m["stamps"] != nil {
			hop["in_ns"], hop["out_ns"], hop["dequeue_ns"] = known(h.InNs), known(h.OutNs), known(h.DequeueNs)
		}
		list = append(list, hop)
	}
	losses, said := []any{}, []any{}
	for _, d := range p.Drops {
		losses = append(losses, map[string]any{
			"hop": d.Hop, "after_delivery": when(d.Local, true), "node": of.NodeName(d.Node), "port": of.PortName(d.Port), "at": d.At, "reason": d.Reason, "qdisc": d.Qdisc,
			"function": d.Function.Name(), "at_ns": known(d.AtNs), "first": when(d.First, true), "node_id": d.Node, "port_id": d.Port,
		})
	}
	for i, values := range p.INT {
		for _, v := range values {
			said = append(said, map[string]any{"hop": i, "name": v.Name, "value": v.Value})
		}
	}
	m["hops"], m["losses"], m["int"] = list, losses, said
}

// exactly reports whether the stamps of a packet do not follow from its times: then they are columns.
func exactly(p *Packet) bool {
	if p.Tree || p.Apart || p.Links != nil {
		return true
	}
	sent := int64(packet.NoTime)
	return slices.ContainsFunc(indices(p), func(i int) bool {
		h := &p.Hops[i]
		s := stampsOf(i, h.In != packet.NoPort, h.OnLink, sent, p.LinkNs(i), h.NodeNs(), h.QueueNs())
		sent = s.sent()
		return s != stamps{h.InNs, h.OutNs, h.DequeueNs}
	})
}

func indices(p *Packet) []int {
	list := make([]int, len(p.Hops))
	for i := range list {
		list[i] = i
	}
	return list
}
