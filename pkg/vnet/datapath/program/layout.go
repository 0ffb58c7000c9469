// SPDX-License-Identifier: Apache-2.0

package program

import (
	"math/bits"
	"strconv"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// Layout is what follows from the options: where the slot index stands in the
// header and in the mark, and the shape of the ring. It becomes the programs'
// constants; bpf/backpack/config.h describes them.
type Layout struct {
	Slots     uint32
	SlotBytes uint32 // whole cache lines
	Cells     uint32 // events that fit into a slot
	Block     uint32 // positions that a CPU takes at once
	MaxSegs   uint32 // longest GSO train that is measured
	MaxRun    uint32 // packets that GRO may have joined to one skb

	// The index, from least to most significant bit: 16 bits of IP ID, DSCPBits
	// low bits of the DSCP, TTL band.
	DSCPBits uint32
	TTLWidth uint32     // TTLs in a band
	Bands    uint32     // in use
	BandTop  [256]uint8 // the TTL that a band is written with
	TTLBand  [256]uint8 // 1 + band, 0 where the TTL lies in none

	MarkMask  uint32 // 0: the GUID stays in the header
	MarkShift uint32

	// Warnings are full sentences about what the choice costs.
	Warnings []string
}

// GUIDPaper is Options.GUIDBits of the vNetRadar paper.
const GUIDPaper = "paper"

const (
	idBits       = 16
	bandBits     = 4 // of the default layout
	bandWidth    = 8
	paperMinTTL  = 3
	paperBands   = 255 - paperMinTTL + 1
	paperDSCP    = 2
	lineBytes    = 64
	minLines     = 2
	maxLines     = 8
	MaxSlotBytes = maxLines * lineBytes
	firstCells   = 5 // in the first two lines
	lineCells    = 8 // in every further line
	minBlock     = 16
	maxBlock     = 1024
	maxTrain     = 128
	maxRun       = 1024
	lossCells    = 3
	addrCells    = 4 // of IPv6 addresses
	natCells     = 3 // of a change of IPv4 addresses
	minHops      = 2
	maxDSCPBits  = 2
	noDSCPLimit  = idBits + bandBits
	maxIndexBits = noDSCPLimit + maxDSCPBits
)

// Layout checks the options and derives the numbers. It refuses with fault.Usage.
func (o Options) Layout() (*Layout, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, loader.Error("count CPUs", err)
	}
	return o.layoutFor(cpus)
}

func (o Options) layoutFor(cpus int) (*Layout, error) {
	l := &Layout{Slots: o.Slots}
	hops := o.MaxHops
	if hops == 0 {
		hops = DefaultHops
	}
	if err := l.setHops(hops, o.IPv6 != IPv6Off); err != nil {
		return nil, err
	}
	if err := l.setGUID(o.GUIDBits); err != nil {
		return nil, err
	}
	mask, err := parseCarry(o.Carry, o.Slots)
	if err != nil {
		return nil, err
	}
	if mask != 0 {
		l.SetMark(mask)
	} else {
		l.warn("with ‹carry› header nodes see rewritten TTL, DSCP and IP ID: routing, queueing and firewall rules that look at them behave differently")
	}
	l.setBlock(cpus)
	return l, nil
}

// LayoutOf is the layout of a domain that exists.
func LayoutOf(d domain.Options) (*Layout, error) { return optionsOf(d).Layout() }

// Index is what the bits of an IPv4 header say of a packet on a link inside the domain, as guid_decode()
// of bpf/backpack/guid.h reads them; ok is false if they stand for no slot.
func (l *Layout) Index(id uint16, ttl, dscp uint8) (index uint32, ok bool) {
	band := uint32(l.TTLBand[ttl])
	if band == 0 {
		return 0, false
	}
	index = uint32(id) | uint32(dscp)&(1<<l.DSCPBits-1)<<idBits | (band-1)<<(idBits+l.DSCPBits)
	return index, index < l.Slots
}

func (l *Layout) warn(text string) { l.Warnings = append(l.Warnings, text) }

// setHops makes a slot large enough for a path of so many nodes: the first and
// the last node write one event, each other two, and a loss three. (The cells of the last one
// and of a loss are RDR_END_CELLS of bpf/backpack/abi.h.) The addresses of
// IPv6 packets take the room of two nodes; the shortest way fits all the same.
func (l *Layout) setHops(hops int, ipv6 bool) error {
	most := HopsIn(MaxSlotBytes)
	if hops < minHops || hops > most {
		return fault.Usage.Errorf("‹max-hops› %d: use %d to %d, or 0 for as many as the longest path has", hops, minHops, most)
	}
	need := 2*hops - 2 + lossCells
	if ipv6 {
		need = max(need, 2*minHops-2+lossCells+addrCells)
	}
	l.setCells(need)
	return nil
}

// setCells makes a slot large enough for so many cells, or as large as a slot can be.
func (l *Layout) setCells(need int) {
	lines := minLines
	for lines < maxLines && firstCells+lineCells*(lines-minLines) < need {
		lines++
	}
	l.SlotBytes = uint32(lines * lineBytes)
	l.Cells = uint32(firstCells + lineCells*(lines-minLines))
}

// HopsIn is the longest path, in nodes, that a slot of so many bytes holds.
func HopsIn(slotBytes uint32) int {
	return (firstCells + lineCells*(int(slotBytes)/lineBytes-minLines) - lossCells + 2) / 2
}

// setGUID chooses the header bits, in the order of least harm: IP ID, TTL bands,
// the two low bits of the DSCP.
func (l *Layout) setGUID(guidBits string) error {
	need := bits.Len32(l.Slots - 1)
	switch guidBits {
	case GUIDPaper:
		l.setPaperBands()
		return nil
	case "auto":
		if need > maxIndexBits {
			return fault.Usage.Errorf("‹slots› %d needs %d header bits, ‹guid-bits› auto has %d: use ‹guid-bits› paper or fewer slots", l.Slots, need, maxIndexBits)
		}
		l.setBands(max(need, noDSCPLimit))
		return nil
	}
	n, err := strconv.Atoi(guidBits)
	if err != nil || n < 12 || n > maxIndexBits {
		return fault.Usage.Errorf("‹guid-bits› %q: use auto, 12 to %d, or paper", guidBits, maxIndexBits)
	}
	if n < need {
		return fault.Usage.Errorf("‹guid-bits› %d is too few: %d slots need %d", n, l.Slots, need)
	}
	l.setBands(n)
	return nil
}

// setBands lays out an index of n bits. The bands lie where TTLs of real packets
// are rare: just above 64 (65-96) and well above 128 (129-224), and no TTL in
// them can run out on the way.
func (l *Layout) setBands(n int) {
	l.TTLWidth = bandWidth
	if n > noDSCPLimit {
		l.DSCPBits = uint32(n - noDSCPLimit)
		l.warn("more than 2^20 slots use low bits of the DSCP as well: queues and filters behind an egress hook see them on packets between nodes")
	}
	l.Bands = 1 << max(0, min(n-idBits, bandBits))
	for band := range l.Bands {
		first := 65 + bandWidth*band // bands 0-3
		if band >= 4 {
			first = 129 + bandWidth*(band-4) // bands 4-15
		}
		l.addBand(band, first, bandWidth)
	}
}

// setPaperBands is the layout of the vNetRadar paper, which overwrites the whole
// TTL: a band for each TTL, so that a decrement between two ports is not seen.
// TTLs are taken from the top, as far as the slots need them.
func (l *Layout) setPaperBands() {
	l.DSCPBits, l.TTLWidth = paperDSCP, 1
	l.Bands = max(1, l.Slots>>(idBits+paperDSCP))
	for band := range l.Bands {
		l.addBand(band, 255-band, 1)
	}
	l.warn("‹guid-bits› paper uses low bits of the DSCP, which queues behind an egress hook see, and knows a packet whose TTL was lowered between two ports by its content alone")
}

func (l *Layout) addBand(band, first, width uint32) {
	l.BandTop[band] = uint8(first + width - 1)
	for ttl := first; ttl < first+width; ttl++ {
		l.TTLBand[ttl] = uint8(band + 1)
	}
}

// setBlock chooses how many positions a CPU takes at once: much, so that the
// shared cursor is rarely touched, but no more than a quarter of the ring for all
// CPUs together, which it may hold unused.
func (l *Layout) setBlock(cpus int) {
	l.Block = minBlock
	for l.Block < maxBlock && l.Block*2*uint32(cpus)*4 <= l.Slots {
		l.Block *= 2
	}
	l.MaxSegs, l.MaxRun = min(maxTrain, l.Block), maxRun
}

// SlotsPerNote is RDR_WINDOW: the slots for which the map of notes has one element.
const SlotsPerNote = 16

// SizeMaps sets the sizes of the maps that have something for each slot, of those that an object has.
func (l *Layout) SizeMaps(spec *ebpf.CollectionSpec) {
	if m := spec.Maps[bpfobj.TcMapRing]; m != nil {
		m.MaxEntries, m.ValueSize = l.Slots, l.SlotBytes
	}
	if m := spec.Maps[bpfobj.TcMapBusy]; m != nil {
		m.MaxEntries = l.Slots / SlotsPerNote
	}
	if m := spec.Maps[bpfobj.TcMapMembers]; m != nil {
		m.ValueSize = l.Slots / 8 // a bit for each
	}
}

// constants returns the programs' configuration by variable name, except what
// the kernel's features decide.
func (l *Layout) constants() map[string]any {
	return map[string]any{
		"cfg_slots":      l.Slots,
		"cfg_cells":      l.Cells,
		"cfg_block":      l.Block,
		"cfg_max_segs":   l.MaxSegs,
		"cfg_max_run":    l.MaxRun,
		"cfg_dscp_bits":  l.DSCPBits,
		"cfg_ttl_width":  l.TTLWidth,
		"cfg_ttl_band":   l.TTLBand,
		"cfg_band_top":   l.BandTop,
		"cfg_mark_mask":  l.MarkMask,
		"cfg_mark_shift": l.MarkShift,
	}
}

// SetMark puts the index into these bits of the mark, which stand side by side.
func (l *Layout) SetMark(mask uint32) {
	l.MarkMask, l.MarkShift = mask, uint32(bits.TrailingZeros32(mask))
}

// GrowFor makes a slot large enough for a path of so many nodes, with addresses that change
// once on the way.
func (l *Layout) GrowFor(hops int, ipv6 bool) {
	need := 2*hops - 2 + lossCells + natCells
	if ipv6 {
		need += addrCells
	}
	l.setCells(need)
}
