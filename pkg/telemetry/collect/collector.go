// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// Collector takes packets, from any number of goroutines. It keeps the metrics of the reports in
// them, and of the packets those that raised an event or tell of a drop.
type Collector struct {
	// Changed, if not nil, is called for each event, which is valid until it returns. It is set
	// before the first packet is added; it and New's show must not wait for long, since nothing
	// is taken meanwhile.
	Changed func(*metrics.Event)
	// Warn, if not nil, is told what went wrong and does not end the collector, in a line. It is set
	// before the first packet, and must not wait for long.
	Warn func(string)
	// Allow is whose packets are taken; none: anybody's. Those of others are counted.
	Allow []netip.Prefix
	// KeepRows is how many bytes of values SaveRows writes at most; 0: any number. Those reported
	// last are written.
	KeepRows int64
	// Outputs, if not nil, says how the ways out do. It is set before the first packet.
	Outputs func() []OutputInfo

	mu         sync.Mutex
	translator *Translator
	engine     *metrics.Engine
	report     metrics.Report
	newest     time.Time // packet
	templates  templates
	path       FastPath // nil: there is none
	taken      uint64   // by it
	failed     error    // of it
	store      Store
	full       bool // the disk is
	failing    bool // a write has found it full since the last SaveRows
	refused    uint64
	gaps       gaps
	inputs     []Input
	closed     bool
}

// New makes a collector. show, if not nil, is called for each record of what is kept: of all if
// the store's Info says so. Close closes the store, too.
func New(t *Translator, e *metrics.Engine, s Store, show func(*record.Record)) *Collector {
	if show != nil {
		t.Emit = func(p *Reported) { show(p.Record()) }
	}
	t.Epoch = s.Info().Epoch
	c := &Collector{translator: t, engine: e, store: s}
	t.way = c.joinedWay
	return c
}

// Add takes a packet, whose memory it does not keep.
func (c *Collector) Add(p Packet) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if !c.allows(p) {
		return nil
	}
	_, err := c.add(p)
	return err
}

// allows says whether a packet's source is heard; if not, it counts it.
func (c *Collector) allows(p Packet) bool {
	if len(c.Allow) == 0 {
		return true
	}
	from := source(p.IP)
	if slices.ContainsFunc(c.Allow, func(of netip.Prefix) bool { return of.Contains(from) }) {
		return true
	}
	c.refused++
	return false
}

// add is take, but for packets at which it fails.
func (c *Collector) add(p Packet) (t *Template, err error) {
	if !c.guard(p, func() { t, err = c.take(p) }) {
		return nil, nil
	}
	return t, err
}

// take takes a packet and returns what others that raise no event look like, if this one raised
// none and that can be said.
func (c *Collector) take(p Packet) (*Template, error) {
	c.report.HasFlow, c.report.Hops = false, c.report.Hops[:0]
	if p.At.After(c.newest) {
		c.newest = p.At
	}
	m := c.translator.Decode(p)
	if m == nil {
		return nil, nil
	}
	c.gaps.add(m)
	keep := c.store.Info().All
	var t *Template
	noArrival := 0
	c.translator.Observe(m, func(o *Observed) {
		noArrival += o.NoArrival
		c.translator.measured(o, &c.report, p.At)
		if c.engine.Add(&c.report, c.Changed) > 0 || o.Dropped {
			keep = true
		}
		if !c.translator.isCard(o) {
			if !keep && c.path != nil {
				t = c.templates.make(p, m, o, &c.report, c.engine)
			}
			return
		}
		// Each is a part of its packet's way: none has a template.
		card := c.translator.card(o, p.At.UnixNano())
		card.flow, card.hop, card.told = c.report.Flow, c.report.Hops[0], c.report.SeenAt
		c.translator.came = append(c.translator.came, card)
	})
	if !keep {
		c.translator.Counts.NoArrival += uint64(noArrival) // Packets counts those of what is kept
		c.translator.join()
		return t, nil
	}
	c.translator.Packets(m, p.At, c.store.Next())
	c.count()
	return nil, c.wrote(c.store.Add(p))
}

// wrote takes what a write to the state directory came to. That the disk is full ends nothing: it is
// counted, and told once until SaveRows finds that there is room again (roomAgain).
func (c *Collector) wrote(err error) error {
	if err == nil || !isFull(err) {
		return err
	}
	c.store.Info().Unsaved++
	c.failing = true
	if !c.full {
		c.full = true
		c.warn(fmt.Sprintf("no room for what is collected, which goes on: reports are not kept, and «int metrics» shows old values: %v", err))
	}
	return nil
}

func (c *Collector) warn(text string) {
	if c.Warn != nil {
		c.Warn(text)
	}
}

// isFull says whether a write has failed for want of room: of the disk, or of a quota.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// count brings the store's Info up to date.
func (c *Collector) count() {
	i := c.store.Info()
	i.Counts, i.Metrics, i.Gaps, i.Forgotten, i.SocketDrops = c.translator.Counts, c.engine.Counts, c.gaps.lost, c.gaps.forgotten, 0
	i.Refused = c.refused
	if i.XDP != nil {
		i.Refused += i.XDP.Refused
	}
	for _, in := range c.inputs {
		i.SocketDrops += in.SocketDrops()
	}
}

// countAll is count, and asks the fast path and sockets, which ask the kernel: not for each packet.
func (c *Collector) countAll() {
	if c.path != nil {
		c.store.Info().XDP = &FastInfo{FastPath: c.taken}
		c.path.About(c.store.Info().XDP)
	}
	i := c.store.Info()
	i.Waiting = 0
	for _, in := range c.inputs {
		i.Waiting += in.Waiting()
		if at, ok := in.(*Interface); ok {
			i.Interface = at.about()
		}
	}
	if c.Outputs != nil {
		i.Outputs = c.Outputs()
	}
	i.Newest = c.newest
	c.count()
}

// Receive takes what comes to the input until that is closed.
func (c *Collector) Receive(in Input) error {
	c.mu.Lock()
	c.inputs = append(c.inputs, in)
	c.mu.Unlock()
	return c.takeAll(in.Receive, net.ErrClosed)
}

// Read takes all packets of a capture file.
func (c *Collector) Read(capture *Capture) error {
	return c.takeAll(capture.NextPacket, io.EOF)
}

// takeAll adds what next returns, until its error is end, which is none.
func (c *Collector) takeAll(next func() (Packet, error), end error) error {
	for {
		p, err := next()
		if errors.Is(err, end) {
			return nil
		}
		if err == nil {
			err = c.Add(p)
		}
		if err != nil {
			return err
		}
	}
}

// Save lets readers see what there is, and returns how it stands.
func (c *Collector) Save() (Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countAll()
	err := c.wrote(c.store.Save())
	return *c.store.Info(), err
}

// Info returns how it stands, as Save does, and writes nothing. Maps in it are shared and do not
// change.
func (c *Collector) Info() Info {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countAll()
	info := *c.store.Info()
	info.Files = slices.Clone(info.Files)
	return info
}

// Rows returns the metrics as they are at a time, by key; zero: when the newest packet came. Those
// that nobody reports any longer go before.
func (c *Collector) Rows(now time.Time) []metrics.Row {
	rows := c.rows(now)
	metrics.SortRows(rows) // 0.3 s of 400,000, in which nothing could be taken
	return rows
}

func (c *Collector) rows(now time.Time) []metrics.Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.IsZero() {
		now = c.newest
	}
	c.engine.Forget(now.UnixNano())
	return c.engine.AppendRows(nil)
}

// Until emits packets whose postcards are no longer waited for at that time.
func (c *Collector) Until(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.guarded(func() {
		c.translator.Until(now)
	})
}

// Together emits packets whose postcards are still waited for: nothing more comes.
func (c *Collector) Together() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.together()
}

func (c *Collector) together() {
	c.guarded(func() {
		c.translator.End()
	})
}

// guarded calls fn, which emits packets whose postcards wait, again if it fails at one: that one has
// gone by then.
func (c *Collector) guarded(fn func()) {
	for range 1 + c.translator.cards.Waiting() {
		if c.guard(Packet{}, func() {
			c.report.HasFlow, c.report.Hops = false, c.report.Hops[:0]
			fn()
		}) {
			return
		}
	}
}

// Close emits packets whose postcards were still waited for, and closes the store. What is
// added afterwards is refused by net.ErrClosed.
func (c *Collector) Close() (Info, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.engine.Moved = nil // the fast path has ended
	c.together()
	c.countAll()
	err := c.wrote(c.store.Close())
	return *c.store.Info(), err
}
