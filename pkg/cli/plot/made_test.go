// SPDX-License-Identifier: Apache-2.0

package plot_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/cli/clitest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// begin is when the first packet of recordings is sent that tests make, Unix ns.
const begin = 1_790_000_000_000_000_000

// made are packets that a test makes.
type made struct {
	names packet.Registry
	list  []*segments.Packet
}

// walk describes a packet: its nodes, and the times on each link, in each node and in the queue of its port 2.
type walk struct {
	nodes             []string
	at                int64 // ns after begin
	link, node, queue int64
	waits             int  // index of the node with the queue
	lost              bool // in that queue; the rest of the way is not seen
	ipv6              bool
	flow              uint16
	segs              int
	report            bool // INT
}

// send adds a packet.
func (m *made) send(w walk) *segments.Packet {
	p := packet.Packet{
		Pos: uint64(len(m.list)), T0: uint64(begin + w.at), State: record.Delivered, HasTuple: true, Proto: 17, TTL: 64, SentTTL: 64,
		Len: 500, Segs: max(w.segs, 1), IPv6: w.ipv6, LatencyNs: packet.NoTime,
		Tuple: packet.Tuple{Src: packet.AddrFrom4([4]byte{10, 0, 0, 1}), Dst: packet.AddrFrom4([4]byte{10, 0, 9, 2}), SrcPort: 4000 + w.flow, DstPort: 53},
	}
	if w.ipv6 {
		p.Src, p.Dst = packet.Addr{0x20, 1, 0xd, 0xb8, 15: 1}, packet.Addr{0x20, 1, 0xd, 0xb8, 0xff, 0xff, 0xee, 0xee, 0xdd, 0xdd, 0xcc, 0xcc, 15: 2}
	}
	now := int64(0)
	for i, name := range w.nodes {
		id := m.names.Node(name)
		h := packet.Hop{Node: id, In: packet.NoPort, Out: packet.NoPort, InNs: packet.NoTime, OutNs: packet.NoTime, DequeueNs: packet.NoTime}
		if i > 0 {
			now += w.link
			h.In, h.InNs = m.names.Port(id, 1), now
			now += w.node
		}
		last := i == len(w.nodes)-1
		if !last || w.lost && i == w.waits {
			h.Out, h.OutNs = m.names.Port(id, 2), now
		} else {
			now -= w.node
		}
		p.LastNs = now
		p.Hops = append(p.Hops, h)
		if i != w.waits || w.queue < 0 || last && !w.lost {
			continue
		}
		if w.lost {
			p.State, p.Lost, p.LatencyNs = record.Lost, true, packet.NoTime
			p.Loss = packet.Drop{Node: id, Port: h.Out, At: record.AtQueue, Reason: "QDISC_DROP", Qdisc: "tbf", AtNs: now, First: true}
			break
		}
		now += w.queue
		p.Hops[i].DequeueNs = now
	}
	if p.State == record.Delivered {
		p.LatencyNs = now
	}
	s := &segments.Packet{Source: record.EBPF, Packet: p}
	if w.report {
		s.Source, s.ID = record.INT, "int-"+strconv.Itoa(len(m.list))
	}
	m.list = append(m.list, s)
	return s
}

// recorded writes them down.
func (m *made) recorded(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	w, err := segments.Create(dir, segments.Meta{Epoch: 7, Slots: 1 << 20}, segments.Options{MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.list {
		if err := w.Add(p, &m.names); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// drawn runs "radar plot", which must succeed, and returns the figure, the rows of its numbers, and what it said.
func drawn(t *testing.T, format string, args ...string) (file []byte, rows []map[string]string, said string) {
	t.Helper()
	folder := t.TempDir()
	name, data := filepath.Join(folder, "a."+format), filepath.Join(folder, "a.csv")
	stdout, stderr, code := clitest.Radar(t, append(append([]string{"plot"}, args...), "-o", name, "--data", data)...)
	if code != kit.ExitOK || stdout != "" {
		t.Fatalf("radar plot %v: code %d: %s%s", args, code, stdout, stderr)
	}
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range table[1:] {
		row := make(map[string]string)
		for i, name := range table[0] {
			row[name] = line[i]
		}
		rows = append(rows, row)
	}
	return file, rows, stderr
}

// number is a cell.
func number(t *testing.T, row map[string]string, name string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(row[name], 64)
	if err != nil {
		t.Fatalf("%s of %v: %v", name, row, err)
	}
	return v
}

// records are what "radar packets" says of a recording: what figures are held against.
func records(t *testing.T, args ...string) (list []record.Record) {
	t.Helper()
	stdout, stderr, code := clitest.Radar(t, append([]string{"packets", "--last", "0", "-o", "json"}, args...)...)
	if code != kit.ExitOK {
		t.Fatal(stderr)
	}
	for d := json.NewDecoder(strings.NewReader(stdout)); d.More(); {
		var r record.Record
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	return list
}

// pathOf is a record's path.
func pathOf(r *record.Record) string {
	var nodes []string
	for _, h := range r.Hops {
		nodes = append(nodes, h.Node)
	}
	return strings.Join(nodes, " > ")
}
