// SPDX-License-Identifier: Apache-2.0

package pcapng

import (
	"container/heap"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"runtime"

	"github.com/vnetradar/radar/pkg/record"
)

// mostHeld is how many bytes of frames wait for earlier ones: about 100,000 without payload.
const mostHeld = 1 << 26

// mostKept is how long the buffer of a frame without payload is. Only such ones are used again.
const mostKept = 1 << 11

// Options say what is written, and how.
type Options struct {
	Application string   // that writes
	Interfaces  []string // NODE/PORT that the capture has in any case, in this order
	// At, if not nil, says which ports are written; port is "" where a packet was lost inside a node.
	At func(node, port string) bool
	// PayloadAt, if not nil, says of which ports payload is captured: of Stats.NoPayload.
	PayloadAt func(node, port string) bool
}

// Payload is what was captured behind a packet's IP header at a port.
type Payload struct {
	Node, Port string
	Out        bool
	Data       []byte
	Header     int // bytes of transport header in it; 0: not known
	Length     int // how many bytes from there on the packet has; of a train its first segment
}

// Stats count what was written.
type Stats struct {
	Packets    uint64 // of records: segments of a train count
	Lost       uint64 // of these: lost, or expired
	Frames     uint64
	Interfaces int
	Late       uint64 // frames behind one of a later time
	NoHeader   uint64 // frames of packets whose header was overwritten: they are empty
	Payload    uint64 // frames with payload
	NoPayload  uint64 // frames of PayloadAt without, though their packets have some
}

// Writer writes a capture.
type Writer struct {
	w       io.Writer
	options Options
	nics    map[string]int
	walker  walker
	comment *commenter
	held    frames
	free    []*frame
	bytes   int // of the buffers of both
	serial  uint64
	written int64 // time of the last frame
	head    []byte
	data    []byte
	stats   Stats
	err     error
}

// about is the comment of every capture.
const about = "Made by radar from its records. Headers are as each packet had them at each port. Payload, TCP options, checksums of " +
	"transport headers and what an ICMP error quotes are not recorded: payload is not there, unless it was captured beside, the others are zeros. " +
	"Each frame's comment has what radar knows of it; a plugin, which comes with it, makes fields of that."

// New begins a capture.
func New(w io.Writer, o Options) (*Writer, error) {
	p := &Writer{w: w, options: o, nics: make(map[string]int), comment: newCommenter(), written: math.MinInt64}
	p.head = appendSection(nil, about, runtime.GOARCH, runtime.GOOS, o.Application)
	for _, name := range o.Interfaces {
		p.nic(name)
	}
	return p, p.writeHead()
}

// nic is the number of an interface. A new one is described before the next frame.
func (p *Writer) nic(name string) int {
	n, ok := p.nics[name]
	if !ok {
		n = len(p.nics)
		p.nics[name] = n
		p.head = appendInterface(p.head, name)
		p.stats.Interfaces++
	}
	return n
}

func (p *Writer) writeHead() error {
	if len(p.head) == 0 {
		return p.err
	}
	p.put(p.head)
	p.head = p.head[:0]
	return p.err
}

// put writes, as long as nothing has failed.
func (p *Writer) put(b []byte) {
	if p.err != nil {
		return
	}
	if _, err := p.w.Write(b); err != nil {
		p.err = fmt.Errorf("write the capture: %w", err)
	}
}

// Add takes a record, and what was captured of its payload. What was seen of it is written by Advance and Flush.
func (p *Writer) Add(r *record.Record, payload []Payload) error {
	sights := p.walker.walk(r)
	id := fnv.New64a()
	_, _ = io.WriteString(id, r.ID)
	written := false
	for i := range sights {
		s := &sights[i]
		if p.options.At != nil && !p.options.At(s.node, s.port) {
			continue
		}
		written = true
		if err := p.hold(r, s, id.Sum64(), takePayload(&payload, s)); err != nil {
			return err
		}
	}
	if written {
		p.stats.Packets += uint64(max(r.Segs, 1))
		if r.State == record.Lost || r.State == record.Expired {
			p.stats.Lost += uint64(max(r.Segs, 1))
		}
	}
	p.limit()
	return p.err
}

// limit keeps to mostHeld.
func (p *Writer) limit() {
	for p.bytes > mostHeld {
		if len(p.free) > 0 {
			p.bytes -= cap(p.frame().block)
		} else {
			p.writeFirst()
		}
	}
}

// hold makes a frame.
func (p *Writer) hold(r *record.Record, s *sight, id uint64, payload *Payload) error {
	text, err := p.comment.of(r, s)
	if err != nil {
		return fmt.Errorf("write the capture: %w", err)
	}
	block := packetBlock{nic: p.nic(s.name()), at: s.at, comment: text, id: id}
	if p.walker.known {
		block.data, block.length = appendHeaders(p.data[:0], r, &s.header)
		if payload != nil {
			block.data = withPayload(block.data, r, &s.header, block.length, payload)
			p.stats.Payload++
		} else if s.direction != lost && len(block.data) < block.length && p.options.PayloadAt != nil && p.options.PayloadAt(s.node, s.port) {
			p.stats.NoPayload++
		}
		p.data = block.data
	} else {
		block.length = r.Len
		p.stats.NoHeader++
	}
	switch s.direction {
	case in:
		block.flags = flagsInbound
	case out:
		block.flags = flagsOutbound
	}
	f := p.frame()
	p.bytes -= cap(f.block)
	f.at, f.serial, f.block = s.at, p.serial, block.append(f.block[:0])
	p.bytes += cap(f.block)
	p.serial++
	heap.Push(&p.held, f)
	return nil
}

// Advance writes the frames from before a time (Unix, ns): no earlier ones are to come.
func (p *Writer) Advance(before int64) error {
	for len(p.held) > 0 && p.held[0].at < before && p.err == nil {
		p.writeFirst()
	}
	return p.err
}

// Flush writes all that is held.
func (p *Writer) Flush() error { return p.Advance(math.MaxInt64) }

func (p *Writer) writeFirst() {
	f := heap.Pop(&p.held).(*frame)
	if f.at < p.written {
		p.stats.Late++
	}
	p.written = max(p.written, f.at)
	_ = p.writeHead()
	p.put(f.block)
	p.stats.Frames++
	if cap(f.block) > mostKept {
		p.bytes -= cap(f.block)
		return
	}
	p.free = append(p.free, f)
}

// Stats are the counts so far.
func (p *Writer) Stats() Stats { return p.stats }

// frame is a block that waits.
type frame struct {
	at     int64
	serial uint64 // of frames with the same time, the one that came first
	block  []byte
}

func (p *Writer) frame() *frame {
	if n := len(p.free); n > 0 {
		f := p.free[n-1]
		p.free[n-1] = nil
		p.free = p.free[:n-1]
		return f
	}
	return new(frame)
}

// frames are a heap.Interface.
type frames []*frame

func (h frames) Len() int { return len(h) }
func (h frames) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].serial < h[j].serial
}
func (h frames) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *frames) Push(f any)   { *h = append(*h, f.(*frame)) }
func (h *frames) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return f
}
