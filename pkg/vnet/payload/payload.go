// SPDX-License-Identifier: Apache-2.0

// Package payload captures the beginning of the payload of packets at chosen ports of a domain, for as long as a
// process wants: docs/design/0045-payload.md. It has a program of its own beside the domain's, and a ring buffer. What
// was captured waits, in bounded memory, until the record of its packet is there.
package payload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// MaxLen is the most that is captured of a packet's payload: RDR_MAX_PAYLOAD of bpf/backpack/payload.h.
const MaxLen = 16384

// Defaults of sizes.
const (
	ringBytes  = 1 << 24 // of the ring buffer: 0.1 s at 160 MB/s
	storeBytes = 1 << 26
	// Records come this long after the timeout of packets that nobody sees again.
	graceTime = 10 * time.Second
	// drainEvery is how often the ring buffer is emptied.
	drainEvery = 10 * time.Millisecond
	// atOnce is how many entries are taken while others wait for the store.
	atOnce = 4096
)

// Options say what is captured.
type Options struct {
	Len       int                          // bytes of payload of each packet, 1 to MaxLen
	At        func(node, port string) bool // at which ports
	RingBytes int                          // of the ring buffer, a power of two; 0: the default
}

// Counts count skbs with payload that the program saw: a train is one.
type Counts struct {
	Taken      uint64
	NoIdentity uint64 // nothing said which packet of the domain they are, or they are none
	RingFull   uint64
	Unreadable uint64
	Crowded    uint64 // taken, but dropped for later ones, as too much waited for records
	Unclaimed  uint64 // taken, but no record asked for them
}

// Capture is a capture that runs. It is for one goroutine.
type Capture struct {
	// Without are hooks that have no place for the program, as "NODE/PORT out".
	Without []string
	// Ports are those that are captured, NODE/PORT.
	Ports []string

	names  map[uint16][2]string // node and port, by number
	coll   *ebpf.Collection
	links  []io.Closer
	reader *ringbuf.Reader
	stop   chan struct{}
	closed bool
	ended  sync.WaitGroup

	mu     sync.Mutex
	store  *store
	record ringbuf.Record
	err    error // why reading has ended
}

// Open begins a capture. Where it fails, nothing stays.
func Open(d *domain.Domain, o Options) (_ *Capture, err error) {
	if o.Len < 1 || o.Len > MaxLen {
		return nil, fault.Usage.Errorf("payload of %d bytes: use 1 to %d", o.Len, MaxLen)
	}
	if o.RingBytes == 0 {
		o.RingBytes = ringBytes
	}
	c := &Capture{names: make(map[uint16][2]string), stop: make(chan struct{}), store: newStore(storeBytes, d.Options.Timeout+graceTime)}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	if c.coll, err = load(d, &o); err != nil {
		return nil, err
	}
	if c.reader, err = ringbuf.NewReader(c.coll.Maps[bpfobj.PayloadMapPayloads]); err != nil {
		return nil, loader.Error("read the ring buffer", err)
	}
	c.reader.SetDeadline(time.Unix(1, 0)) // never wait: the program wakes nobody
	if err := c.attach(d, o.At); err != nil {
		return nil, err
	}
	c.ended.Go(c.drain)
	return c, nil
}

// load loads the program, with the domain's maps.
func load(d *domain.Domain, o *Options) (*ebpf.Collection, error) {
	keys, err := hashKeys(d)
	if err != nil {
		return nil, err
	}
	spec, err := program.PayloadSpec(d.Options, keys, uint32(o.Len))
	if err != nil {
		return nil, err
	}
	spec.Maps[bpfobj.PayloadMapPayloads].MaxEntries = uint32(o.RingBytes)
	shared := make(map[string]*ebpf.Map)
	defer func() {
		for _, m := range shared {
			m.Close()
		}
	}()
	for name := range spec.Maps {
		if loader.Own(name) || strings.HasPrefix(name, "payload") {
			continue // its own
		}
		if shared[name], err = domain.Kind.OpenMap(d.Name, name); err != nil {
			return nil, err
		}
	}
	coll, err := loader.Load(spec, shared)
	if err != nil {
		return nil, loader.Error("load the program for payload", err)
	}
	for name := range shared { // the program has them; to hold them would delay whoever detaches
		coll.Maps[name].Close()
		delete(coll.Maps, name)
	}
	if err := coll.Maps[bpfobj.PayloadMapPayloadProgs].Put(uint32(0), coll.Programs[bpfobj.PayloadProgRadarPayload]); err != nil {
		coll.Close()
		return nil, loader.Error("fill program array", err)
	}
	return coll, nil
}

// hashKeys are the domain's, which its programs have as constants.
func hashKeys(d *domain.Domain) (keys program.HashKeys, err error) {
	m, err := domain.Kind.OpenMap(d.Name, bpfobj.TcMapControl)
	if err != nil {
		return keys, err
	}
	defer m.Close()
	var control bpfobj.TcRdrControl
	if err := m.Lookup(uint32(0), &control); err != nil {
		return keys, loader.Error("read map "+bpfobj.TcMapControl, err)
	}
	return control.Hash, nil
}

// attach puts the program at all ports that are chosen.
func (c *Capture) attach(d *domain.Domain, at func(node, port string) bool) error {
	self, err := host.Self()
	if err != nil {
		return err
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		var spots []spot
		for k := range d.Ports {
			p := &d.Ports[k]
			if p.Node == n.ID && !p.Removed && at(n.Name, p.Name) {
				spots = append(spots, spotsOf(d, n, p)...)
				c.names[p.ID] = [2]string{n.Name, p.Name}
				c.Ports = append(c.Ports, n.Name+"/"+p.Name)
			}
		}
		if len(spots) == 0 {
			continue
		}
		if err := topo.SpecOf(*n).Do(func() error { return c.attachNode(d, self, spots) }); err != nil {
			return fmt.Errorf("capture payload in node %s: %w", n.Name, err)
		}
	}
	return nil
}

func (c *Capture) attachNode(d *domain.Domain, self host.Process, spots []spot) error {
	for i := range spots {
		l, err := spots[i].attach(d, self, c.coll.Maps[bpfobj.PayloadMapPayloadProgs])
		switch {
		case errors.Is(err, errNoPlace):
			c.Without = append(c.Without, spots[i].String())
		case err != nil:
			return err
		default:
			c.links = append(c.links, l)
		}
	}
	return nil
}

// drain empties the ring buffer again and again.
func (c *Capture) drain() {
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
			c.Drain()
		}
	}
}

// Drain takes what has been captured up to now out of the ring buffer, so that Take has it. What comes meanwhile is left
// there: programs never wait, so the ring buffer may never be seen empty.
func (c *Capture) Drain() {
	for bytes := c.reader.AvailableBytes(); bytes > 0; {
		c.mu.Lock()
		bytes = c.read(atOnce, bytes)
		c.mu.Unlock()
	}
}

// read takes so many entries, or bytes, out of the ring buffer, and returns how many bytes are left of these. The caller
// holds mu.
func (c *Capture) read(most, bytes int) (left int) {
	now := time.Now()
	c.store.trim(now)
	for ; most > 0 && bytes > 0; most-- {
		err := c.reader.ReadInto(&c.record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return 0
		}
		if err != nil {
			c.err = err
			return 0
		}
		bytes -= sizeInRing(len(c.record.RawSample))
		c.take(c.record.RawSample, now)
	}
	return bytes
}

// sizeInRing is what an entry of n bytes takes in the ring buffer: it has a header, and begins at 64 bits.
func sizeInRing(n int) int { return unix.BPF_RINGBUF_HDR_SZ + (n+7)&^7 }

// take keeps an entry of the ring buffer.
func (c *Capture) take(b []byte, now time.Time) {
	const size = int(unsafe.Sizeof(bpfobj.PayloadRdrPayload{}))
	if len(b) < size {
		return
	}
	head := *(*bpfobj.PayloadRdrPayload)(unsafe.Pointer(&b[0]))
	data := b[size:]
	if int(head.Captured) > len(data) {
		return
	}
	c.store.add(head.Pos, entry{
		port: head.Port, out: head.Out != 0, header: int(head.Hdr), length: int(head.Length),
		data: append([]byte(nil), data[:head.Captured]...),
	}, now)
}

// Take hands out what was captured of the packet at a position of the domain's ring, once: of what Drain has taken.
func (c *Capture) Take(pos uint64) (parts []Part) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.store.take(pos) {
		name := c.names[e.port]
		parts = append(parts, Part{Node: name[0], Port: name[1], Out: e.out, Data: e.data, Header: e.header, Length: e.length})
	}
	return parts
}

// Counts are those up to now.
func (c *Capture) Counts() (Counts, error) {
	var n [bpfobj.PayloadRdrPayloadCountRDR_PC_MAX]uint64
	for i := range n {
		var each []uint64
		if err := c.coll.Maps[bpfobj.PayloadMapPayloadCounts].Lookup(uint32(i), &each); err != nil {
			return Counts{}, loader.Error("read map "+bpfobj.PayloadMapPayloadCounts, err)
		}
		for _, v := range each {
			n[i] += v
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return Counts{
		Taken: n[bpfobj.PayloadRdrPayloadCountRDR_PC_TAKEN], NoIdentity: n[bpfobj.PayloadRdrPayloadCountRDR_PC_NO_IDENTITY],
		RingFull: n[bpfobj.PayloadRdrPayloadCountRDR_PC_RING_FULL], Unreadable: n[bpfobj.PayloadRdrPayloadCountRDR_PC_UNREADABLE],
		Crowded: c.store.crowded, Unclaimed: c.store.left(),
	}, c.err
}

// Detach takes the program off: nothing more is captured. What has been captured, and the counts, stay until Close.
func (c *Capture) Detach() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	c.links = nil
	return errors.Join(errs...)
}

// Close takes the program off. Counts are gone then. A second call does nothing.
func (c *Capture) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	errs := []error{c.Detach()}
	close(c.stop)
	c.ended.Wait()
	if c.reader != nil {
		errs = append(errs, c.reader.Close())
	}
	if c.coll != nil {
		c.coll.Close()
	}
	return errors.Join(errs...)
}
