// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"context"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
)

// gobbed is a packet in a file of the skeleton; names of functions apart.
type gobbed struct {
	P         Packet
	Functions []string
	Nodes     map[uint16]string
	Ports     map[uint16][2]string
	PortNode  map[uint16]uint16
	Event     *Event
	Fields    []byte
	Meta      *Meta
	Wall      int64
}

// Writer keeps packets.
type Writer struct {
	mu   sync.Mutex
	f    *os.File
	e    *gob.Encoder
	meta Meta
	st   Stats
}

// Create begins a recording, or continues one.
func Create(dir string, m Meta, o Options) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, strconv.FormatInt(time.Now().UnixNano(), 10)+".gob"))
	if err != nil {
		return nil, err
	}
	w := &Writer{f: f, e: gob.NewEncoder(f), meta: m}
	return w, w.e.Encode(gobbed{Meta: &m})
}

// Add keeps a packet.
func (w *Writer) Add(p *Packet, of packet.Scope) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := gobbed{P: *p, Nodes: map[uint16]string{}, Ports: map[uint16][2]string{}, PortNode: map[uint16]uint16{}, Wall: of.WallOffset()}
	if g.P.ID == "" {
		g.P.ID = packetID(w.meta.Epoch, p.Pos)
	}
	if g.P.GUID == "" && w.meta.Slots > 0 {
		g.P.GUID = "0x" + strconv.FormatUint(p.Pos&(w.meta.Slots-1), 16)
	}
	if g.P.Inner == "" && p.Packet.Inner != 0 {
		g.P.Inner = packetID(w.meta.Epoch, p.Packet.Inner)
	}
	node := func(n uint16) { g.Nodes[n] = of.NodeName(n) }
	port := func(n uint16) {
		g.Ports[n], g.PortNode[n] = [2]string{of.PortName(n)}, of.PortNode(n)
		node(of.PortNode(n))
	}
	for _, h := range p.Hops {
		node(h.Node)
		port(h.In)
		port(h.Out)
	}
	node(p.Loss.Node)
	port(p.Loss.Port)
	g.Functions = append(g.Functions, p.Loss.Function.Name())
	g.P.Loss.Function = nil
	g.P.Drops = append([]packet.BranchDrop(nil), p.Drops...)
	for i := range g.P.Drops {
		d := &g.P.Drops[i]
		node(d.Node)
		port(d.Port)
		g.Functions = append(g.Functions, d.Function.Name())
		d.Function = nil
	}
	w.st.Kept++
	return w.e.Encode(g)
}

func packetID(epoch uint32, pos uint64) string {
	b := strconv.FormatUint(uint64(epoch), 16)
	for len(b) < 8 {
		b = "0" + b
	}
	return b + "-" + strconv.FormatUint(pos, 16)
}

// AddEvent keeps an event.
func (w *Writer) AddEvent(at time.Time, kind string, fields map[string]any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.e.Encode(gobbed{Event: &Event{Time: at, Kind: kind}})
}

// Flush finishes the segment under way.
func (w *Writer) Flush() error { return nil }

// Close finishes the recording.
func (w *Writer) Close() error { return w.f.Close() }

// Stats says what became of what was added.
func (w *Writer) Stats() Stats { return w.st }

// Dir is a recording that is read.
type Dir struct {
	metas   []Meta
	packets []*Packet
	events  []Event
	nodes   map[uint16]string
	ports   map[uint16][2]string
	of      map[uint16]uint16
	wall    int64
}

// Open opens a recording.
func Open(dir string) (*Dir, error) {
	d := &Dir{nodes: map[uint16]string{}, ports: map[uint16][2]string{}, of: map[uint16]uint16{}}
	names, _ := filepath.Glob(filepath.Join(dir, "*.gob"))
	for _, n := range names {
		f, err := os.Open(n)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		for dec := gob.NewDecoder(f); ; {
			var g gobbed
			if err := dec.Decode(&g); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			d.take(g)
		}
	}
	sort.SliceStable(d.packets, func(i, j int) bool { return d.packets[i].T0 < d.packets[j].T0 })
	return d, nil
}

func (d *Dir) take(g gobbed) {
	switch {
	case g.Meta != nil:
		d.metas = append(d.metas, *g.Meta)
		return
	case g.Event != nil:
		d.events = append(d.events, *g.Event)
		return
	}
	d.wall = g.Wall
	for k, v := range g.Nodes {
		d.nodes[k] = v
	}
	for k, v := range g.Ports {
		d.ports[k], d.of[k] = v, g.PortNode[k]
	}
	p := g.P
	if g.Functions[0] != "" {
		p.Loss.Function = packet.NamedFunction(g.Functions[0])
	}
	for i, f := range g.Functions[1:] {
		if f != "" {
			p.Drops[i].Function = packet.NamedFunction(f)
		}
	}
	d.packets = append(d.packets, &p)
}

// Meta are those of the recording's segments.
func (d *Dir) Meta() []Meta { return d.metas }

// Scope is what the packets' numbers mean.
func (d *Dir) Scope() packet.Scope { return d }

// NodeName and those below are the Scope.
func (d *Dir) NodeName(n uint16) string { return d.nodes[n] }

// PortName is a port's.
func (d *Dir) PortName(n uint16) string { return d.ports[n][0] }

// PortNode is a port's.
func (d *Dir) PortNode(n uint16) uint16 {
	if of, ok := d.of[n]; ok {
		return of
	}
	return packet.NoNode
}

// WallOffset is of all.
func (d *Dir) WallOffset() int64 { return d.wall }

// Host is of the first.
func (d *Dir) Host() string {
	if len(d.metas) > 0 {
		return d.metas[0].Host
	}
	return ""
}

// Span is of the first and last packet.
func (d *Dir) Span() (first, last time.Time) {
	if n := len(d.packets); n > 0 {
		return time.Unix(0, d.packets[0].UnixNs(d)), time.Unix(0, d.packets[n-1].UnixNs(d))
	}
	return
}

// Read reads packets in the order of their first stamps.
func (d *Dir) Read(ctx context.Context, since, until time.Time, fn func(*Packet) error) error {
	for _, p := range d.packets {
		t := time.Unix(0, p.UnixNs(d))
		if !since.IsZero() && t.Before(since) || !until.IsZero() && !t.Before(until) {
			continue
		}
		if err := fn(p); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Events reads events.
func (d *Dir) Events(_ context.Context, fn func(Event) error) error {
	for _, e := range d.events {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// Damage is what is not read.
func (d *Dir) Damage() []Damage { return nil }
