// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// flow is what is known of a key that has a template.
type flow struct {
	large bool
	taken uint64 // as accounted
	ip    []byte // the packet that the template was made of
	words int
	tail  int
	used  time.Time
}

// Install makes t the key's template, unless it is too large for any: then it has none.
func (p *Path) Install(key, number uint64, packet collect.Packet, t *collect.Template) error {
	f := p.flows[key]
	// The last place for a word is the tail's.
	large := len(t.Mask)/8 >= len(p.small.Mask) || len(t.Bands) > len(p.small.Band)
	if large && (len(t.Mask)/8 >= len(p.large.Mask) || len(t.Bands) > len(p.large.Band)) {
		return nil
	}
	if f != nil && f.large != large {
		if err := p.remove(key, f); err != nil {
			return err
		}
		f = nil
	}
	head := bpfobj.CollectTemplateHead{
		After: number, SumLo: t.Sum.Lo, SumSpan: t.Sum.Hi - t.Sum.Lo, Words: uint16(len(t.Mask) / 8), Bands: uint16(len(t.Bands)),
		MaxLen: math.MaxUint32, Tail: uint16(max(t.Tail, len(t.Mask)-8)),
	}
	if t.MaxLen > 0 {
		head.MaxLen = uint32(t.MaxLen)
	}
	if t.Flow.Has {
		head.HasFlow, head.Flow, head.Generation = math.MaxUint32, t.Flow.Index, uint32(t.Flow.Lo)
	}
	if t.Single {
		head.Single = 1
	}
	var err error
	if large {
		p.large.Head = head
		fill(p.large.Mask[:], p.large.Value[:], p.large.Band[:], t)
		err = p.objs.LargeTemplates.Put(key, &p.large)
	} else {
		p.small.Head = head
		fill(p.small.Mask[:], p.small.Value[:], p.small.Band[:], t)
		err = p.objs.SmallTemplates.Put(key, &p.small)
	}
	if err != nil && f != nil { // what is left there is another one
		err = errors.Join(err, p.remove(key, f))
	}
	switch {
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOMEM): // others go when they are idle
		p.full.Add(1)
		return nil
	case err != nil:
		return fmt.Errorf("write a template: %w", err)
	}
	if f == nil {
		f = &flow{large: large, used: p.now}
	}
	f.taken, f.words, f.tail = 0, len(t.Mask)/8, t.Tail
	f.ip = append(f.ip[:0], packet.IP...)
	p.flows[key] = f
	return nil
}

func fill(mask, value []uint64, bands []bpfobj.CollectBand, t *collect.Template) {
	for i := range len(t.Mask) / 8 {
		mask[i], value[i] = binary.NativeEndian.Uint64(t.Mask[8*i:]), binary.NativeEndian.Uint64(t.Value[8*i:])
	}
	end := len(mask) - 1
	if mask[end], value[end] = 0, 0; t.Tail > 0 {
		mask[end], value[end] = binary.NativeEndian.Uint64(t.TailMask[:]), binary.NativeEndian.Uint64(t.TailValue[:])
	}
	for i, b := range t.Bands {
		bands[i] = bpfobj.CollectBand{Off: uint16(b.Off), Mask: b.Mask, Lo: b.Lo, Span: b.Hi - b.Lo}
		if b.Shared >= 0 {
			bands[i].Flags, bands[i].Lo, bands[i].Span = uint16(bpfobj.COLLECT_BAND_SHARED), uint32(b.Shared), 0
		}
		if b.Summed {
			bands[i].Summed = math.MaxUint32
		}
	}
}

// SetBand sets a shared band.
func (p *Path) SetBand(index, lo, hi uint32) error {
	if err := p.objs.Bands.Put(index, bpfobj.CollectSharedBand{Lo: lo, Span: hi - lo}); err != nil {
		return fmt.Errorf("set a band: %w", err)
	}
	return nil
}

// Taken returns the last packet that a key's template has taken, and how many since the last call.
func (p *Path) Taken(key uint64) (collect.Packet, uint64, error) {
	f := p.flows[key]
	if f == nil {
		return collect.Packet{}, 0, nil
	}
	head, last, err := p.lookup(key, f)
	if err != nil {
		return collect.Packet{}, 0, err
	}
	n := head.Taken - f.taken
	if f.taken = head.Taken; n == 0 {
		return collect.Packet{}, 0, nil
	}
	f.used = p.now
	_, payload, err := collect.Packet{IP: f.ip}.UDP()
	if err != nil {
		return collect.Packet{}, 0, fmt.Errorf("packet of a template: %w", err)
	}
	for i := range f.words {
		binary.NativeEndian.PutUint64(payload[8*i:], last[i])
	}
	if f.tail > 0 {
		binary.NativeEndian.PutUint64(payload[f.tail:], last[len(last)-1])
	}
	return collect.Packet{At: time.Now(), IP: f.ip}, n, nil
}

// lookup reads a template while the program may be using it: it reads again if reports were taken
// meanwhile, since the last one may have been overwritten.
func (p *Path) lookup(key uint64, f *flow) (head *bpfobj.CollectTemplateHead, last []uint64, err error) {
	taken := uint64(math.MaxUint64)
	for range 16 {
		if head, last, err = p.read(key, f); err != nil || head.Taken == taken {
			return head, last, err
		}
		taken = head.Taken
	}
	return head, last, nil
}

func (p *Path) read(key uint64, f *flow) (*bpfobj.CollectTemplateHead, []uint64, error) {
	var err error
	head, last, half := &p.small.Head, p.small.Last[:], len(p.small.Mask)
	if f.large {
		head, last, half = &p.large.Head, p.large.Last[:], len(p.large.Mask)
		err = p.objs.LargeTemplates.Lookup(key, &p.large)
	} else {
		err = p.objs.SmallTemplates.Lookup(key, &p.small)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read a template: %w", err)
	}
	if head.Last&1 != 0 {
		return head, last[half:], nil
	}
	return head, last[:half], nil
}

// Remove removes a key's template, if it has one.
func (p *Path) Remove(key uint64) error {
	if f := p.flows[key]; f != nil {
		return p.remove(key, f)
	}
	return nil
}

func (p *Path) remove(key uint64, f *flow) error {
	m := p.objs.SmallTemplates
	if f.large {
		m = p.objs.LargeTemplates
	}
	delete(p.flows, key)
	if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("remove a template: %w", err)
	}
	return nil
}
