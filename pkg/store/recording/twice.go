// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vnetradar/radar/pkg/store/parquet"
	"github.com/vnetradar/radar/pkg/store/segments"
)

// Bounds of looking for packets that are there twice.
const (
	mostTwice    = 1 << 22 // packets
	pageBits     = 12      // positions of a page
	pagesOfBlock = 1 << 10
	mostPages    = 1 << 20 // 512 bytes each
)

// Twice says which rows of a recording are left out, because their packets are there once more.
type Twice struct {
	Packets int // that are there more than once

	rows map[segments.Place]*leftOut
}

// leftOut are rows of a row group.
type leftOut struct {
	packets []bool // they are not given
	said    []bool // what nodes have said of them is not
}

// Packets are the rows of a row group that are left out; nil: none is.
func (t *Twice) LeftOut(p segments.Place) []bool {
	if l := t.rows[p]; l != nil {
		return l.packets
	}
	return nil
}

// SaidLeftOut are those of which what nodes have said is left out; nil: of none.
func (t *Twice) SaidLeftOut(p segments.Place) []bool {
	if l := t.rows[p]; l != nil {
		return l.said
	}
	return nil
}

// packetKey is a packet's name: the position of a domain's, or the hash of the ID that a packet of reports has.
type packetKey struct {
	pos   uint64
	epoch uint32
	named bool
}

// seen are the packets met so far, as bits by position. Positions of a recording are dense.
type seen struct {
	sync.Mutex
	blocks map[packetKey]*[pagesOfBlock]*[1 << (pageBits - 6)]uint64 // by position of the first
	named  map[packetKey]bool
	pages  int
	twice  map[packetKey]bool
	failed error
}

var seed = maphash.MakeSeed()

// FindTwice reads the names of all packets. Two recorders, as one that
// went on with another's directory, may have kept the same packets: of these the recorder's is given, with what
// switches have said, as Read does.
//
// Nothing is read where all files say that one Writer has added no packet twice.
func (r *Recording) FindTwice(ctx context.Context) (*Twice, error) {
	d, places := r.Dir, r.Dir.Places()
	if once := d.Once(); once != "" && !strings.Contains(once, " ") {
		return &Twice{}, nil
	}
	s := &seen{blocks: make(map[packetKey]*[pagesOfBlock]*[1 << (pageBits - 6)]uint64), named: make(map[packetKey]bool), twice: make(map[packetKey]bool)}
	eachPlace(ctx, d, places, func(_ int, _ *segments.Frame, keys []packetKey) { s.add(keys) })
	if err := cmp.Or(ctx.Err(), s.failed); err != nil {
		return nil, err
	}
	t := &Twice{Packets: len(s.twice), rows: make(map[segments.Place]*leftOut)}
	if len(s.twice) == 0 {
		return t, nil
	}
	var mu sync.Mutex
	var copies []copyOf
	eachPlace(ctx, d, places, func(at int, f *segments.Frame, keys []packetKey) {
		found, err := copiesOf(f, at, keys, s.twice)
		if err != nil {
			f.Damaged(err)
		}
		mu.Lock()
		defer mu.Unlock()
		copies = append(copies, found...)
	})
	t.choose(copies)
	return t, ctx.Err()
}

// eachPlace calls fn with the names of the packets of each row group, from several goroutines.
func eachPlace(ctx context.Context, d *segments.Dir, places []segments.Place, fn func(at int, f *segments.Frame, keys []packetKey)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			var m parquet.Memory
			defer m.Close()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(places) {
					return
				}
				if f := d.Load(places[i], &m); f != nil {
					keys, err := keysOf(f)
					if err != nil {
						f.Damaged(err)
					} else {
						fn(i, f, keys)
					}
				}
			}
		})
	}
	all.Wait()
}

// keys are the names of the packets of a row group.
func keysOf(f *segments.Frame) ([]packetKey, error) {
	pos, err := f.Column("", "pos")
	if err != nil {
		return nil, err
	}
	epoch, err := f.Column("", "epoch")
	if err != nil {
		return nil, err
	}
	id, err := f.Column("", "id")
	if err != nil {
		return nil, err
	}
	keys := make([]packetKey, f.Rows)
	for i := range keys {
		keys[i] = packetKey{pos: uint64(pos.Ints[i]), epoch: uint32(epoch.Ints[i])}
		if id.Index != nil && id.Index[i] < uint32(len(id.Dict)) {
			keys[i] = keyOf(id.Dict[id.Index[i]])
		}
	}
	return keys, nil
}

// keyOf is the name of a packet of that ID. A collector's file has the ID of a packet that is the domain's own.
func keyOf(id string) packetKey {
	epoch, pos, _ := strings.Cut(id, "-")
	e, err := strconv.ParseUint(epoch, 16, 32)
	p, failed := strconv.ParseUint(pos, 16, 64)
	if k := (packetKey{pos: p, epoch: uint32(e)}); err == nil && failed == nil && fmt.Sprintf("%08x-%x", k.epoch, k.pos) == id {
		return k
	}
	return packetKey{pos: maphash.String(seed, id), named: true}
}

// add notes packets, and which of them were there before.
func (s *seen) add(keys []packetKey) {
	s.Lock()
	defer s.Unlock()
	var block *[pagesOfBlock]*[1 << (pageBits - 6)]uint64
	var of packetKey
	for _, k := range keys {
		if s.failed != nil {
			return
		}
		if k.named {
			s.again(k, s.named[k])
			s.named[k] = true
			continue
		}
		base := packetKey{pos: k.pos / pagesOfBlock >> pageBits, epoch: k.epoch}
		if block == nil || base != of {
			if block, of = s.blocks[base], base; block == nil {
				block = new([pagesOfBlock]*[1 << (pageBits - 6)]uint64)
				s.blocks[base] = block
				s.pages += pagesOfBlock * 8 / 512
			}
		}
		page := &block[k.pos>>pageBits%pagesOfBlock]
		if *page == nil {
			*page = new([1 << (pageBits - 6)]uint64)
			s.pages++
		}
		word, bit := k.pos%(1<<pageBits)/64, uint64(1)<<(k.pos%64)
		s.again(k, (*page)[word]&bit != 0)
		(*page)[word] |= bit
	}
	if s.pages > mostPages || len(s.named) > 16*mostTwice {
		s.failed = fmt.Errorf("the positions of its packets lie too far apart, or too many packets have names of their own")
	}
}

func (s *seen) again(k packetKey, is bool) {
	if !is {
		return
	}
	if s.twice[k] = true; len(s.twice) > mostTwice {
		s.failed = fmt.Errorf("more than %d packets are there twice: ask a directory for each recorder", mostTwice)
	}
}

// copyOf is one of the rows of a packet that is there more than once.
type copyOf struct {
	key   packetKey
	t     int64
	place segments.Place
	nth   int // of all places
	row   int
	said  bool // nodes have said something
}

// copies are rows of packets that are there more than once.
func copiesOf(f *segments.Frame, nth int, keys []packetKey, twice map[packetKey]bool) (found []copyOf, err error) {
	at, err := f.Column("", "t")
	if err != nil {
		return nil, err
	}
	said, err := f.Lens("int")
	if err != nil {
		return nil, err
	}
	for i, k := range keys {
		if twice[k] {
			found = append(found, copyOf{k, at.Ints[i], f.Place, nth, i, said[i] > 0})
		}
	}
	return found, nil
}

// choose keeps one of the copies of each packet: the recorder's, with the INT metadata of the first copy that has any.
func (t *Twice) choose(copies []copyOf) {
	slices.SortFunc(copies, func(a, b copyOf) int {
		return cmp.Or(cmp.Compare(a.key.epoch, b.key.epoch), cmp.Compare(a.key.pos, b.key.pos), cmp.Compare(a.t, b.t),
			cmp.Compare(a.nth, b.nth), cmp.Compare(a.row, b.row))
	})
	for len(copies) > 0 {
		n := 1
		for n < len(copies) && copies[n].key == copies[0].key && copies[n].t == copies[0].t {
			n++
		}
		chosen, said := slices.IndexFunc(copies[:n], func(c copyOf) bool { return !c.said }), slices.IndexFunc(copies[:n], func(c copyOf) bool { return c.said })
		if chosen < 0 {
			chosen = n - 1
		}
		for i, c := range copies[:n] {
			l := t.of(c.place)
			l.packets[c.row] = i != chosen
			l.said[c.row] = i != said
		}
		copies = copies[n:]
	}
}

func (t *Twice) of(p segments.Place) *leftOut {
	l := t.rows[p]
	if l == nil {
		l = &leftOut{make([]bool, p.Rows), make([]bool, p.Rows)}
		t.rows[p] = l
	}
	return l
}
