// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/store/parquet"
)

// step is a hop of a path, as "places" has it: numbers, and what else all packets of the path share.
type step struct {
	Node, In, Out uint16
	Flags         uint8
	From          int16
	Name          string // see Packet.Nodes
}

// Flags of a step.
const (
	stepOnLink = 1 << iota
	stepGap
	stepCopy
	stepTree // From is known
	stepNamed
)

// paths are those of a batch.
type paths struct {
	index map[string]uint32
	hops  []uint32 // entries of each path, and where they begin in the columns of hops
	begin []uint32
	key   []byte
	last  []byte // the key of the packet before
	at    uint32 // its path
}

func (s *paths) reset() {
	clear(s.index)
	s.hops, s.begin = s.hops[:0], s.begin[:0]
	s.forget()
}

// forget makes keys of packets that came before no longer count: they have other numbers.
func (s *paths) forget() {
	clear(s.index)
	s.last = s.last[:0]
}

// pathOf is the number of the packet's path.
func (b *batch) pathOf(p *Packet) uint32 {
	s := &b.paths
	key := s.key[:0]
	for i := range p.Hops {
		h := &p.Hops[i]
		flags := stepFlags(p, h, i)
		key = binary.LittleEndian.AppendUint64(key, uint64(h.Node)|uint64(h.In)<<16|uint64(h.Out)<<32|uint64(uint16(h.From))<<48)
		key = append(key, flags)
		if flags&stepNamed != 0 {
			key = append(append(key, p.Nodes[i]...), 0)
		}
	}
	key = append(key, 1)
	s.key = key
	if len(s.last) > 0 && string(s.last) == string(key) {
		return s.at
	}
	i, ok := s.index[string(key)]
	if !ok {
		if s.index == nil {
			s.index = make(map[string]uint32)
		}
		i = b.newPath(p)
		s.index[string(key)] = i
	}
	s.last, s.key, s.at = key, s.last, i
	return i
}

func stepFlags(p *Packet, h *packet.Hop, i int) (flags uint8) {
	if h.OnLink {
		flags |= stepOnLink
	}
	if h.Gap {
		flags |= stepGap
	}
	if h.Copy {
		flags |= stepCopy
	}
	if p.Tree {
		flags |= stepTree
	}
	if i < len(p.Nodes) {
		flags |= stepNamed
	}
	return flags
}

// newPath adds the columns of a path.
func (b *batch) newPath(p *Packet) uint32 {
	s := &b.paths
	i := uint32(len(s.hops))
	s.hops = append(s.hops, uint32(len(p.Hops)))
	s.begin = append(s.begin, uint32(len(b.cols[colHopNode].v)))
	steps := make([]step, len(p.Hops))
	for k := range p.Hops {
		h := &p.Hops[k]
		steps[k] = step{Node: b.names.Node(h.Node), In: b.names.Port(h.In), Out: b.names.Port(h.Out), Flags: stepFlags(p, h, k)}
		st := &steps[k]
		b.use(st.Node, st.In)
		b.use(st.Node, st.Out)
		if p.Tree {
			st.From = h.From
		}
		st.Name = b.names.To.NodeName(st.Node)
		if k < len(p.Nodes) {
			st.Name = p.Nodes[k]
		}
		b.put(colHopNode, int64(b.cols[colHopNode].text.add(st.Name)))
		b.put(colHopInPort, b.portText(colHopInPort, st.In))
		b.put(colHopPort, b.portText(colHopPort, st.Out))
	}
	hash := fnv.New64a()
	hash.Write([]byte(pathText(steps, b.names.To, true)))
	b.put(colPathID, int64(hash.Sum64()))
	b.put(colPath, int64(b.cols[colPath].text.add(pathText(steps, b.names.To, false))))
	b.put(colPlaces, int64(b.cols[colPlaces].text.add(placesText(steps))))
	return i
}

func (b *batch) portText(col int, port uint16) int64 {
	name := b.names.To.PortName(port)
	if port == packet.NoPort || name == "" {
		return parquet.Null
	}
	return int64(b.cols[col].text.add(name))
}

// pathText is the path as radar shows it: nodes, with ports those at both ends of each link as well.
func pathText(steps []step, names packet.Names, withPorts bool) string {
	shown := make([]record.Step, len(steps))
	for i, s := range steps {
		shown[i] = record.Step{Text: s.Name, Prev: s.prev(i), Same: -1}
		for j := 0; !withPorts && s.Flags&stepCopy != 0 && j < i; j++ {
			if f := steps[j]; f.Flags&stepCopy == 0 && f.Name == s.Name && f.In == s.In && f.prev(j) == s.prev(i) {
				shown[i].Same = j
				break
			}
		}
		if in := names.PortName(s.In); withPorts && in != "" {
			shown[i].Text = in + ":" + shown[i].Text
		}
		if out := names.PortName(s.Out); withPorts && out != "" {
			shown[i].Text += ":" + out
		}
		if s.Flags&stepGap != 0 {
			shown[i].Arrow = record.GapArrow
		}
	}
	return record.PathText(shown)
}

func (s *step) prev(i int) int {
	if s.Flags&stepTree != 0 && int(s.From) >= -1 && int(s.From) < i {
		return int(s.From)
	}
	return i - 1
}

// placesText is the path in numbers: a list of hops, each a list of its node, in and out port, flags,
// the hop before, and the node's name. What is 0 or "" at its end is left out.
func placesText(steps []step) string {
	b := []byte{'['}
	for i, s := range steps {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "[%d,%d,%d", s.Node, s.In, s.Out)
		if s.Flags != 0 {
			b = fmt.Appendf(b, ",%d", s.Flags)
		}
		if s.Flags&(stepTree|stepNamed) != 0 {
			b = fmt.Appendf(b, ",%d", s.From)
		}
		if s.Flags&stepNamed != 0 {
			name, _ := json.Marshal(s.Name)
			b = append(append(b, ','), name...)
		}
		b = append(b, ']')
	}
	return string(append(b, ']'))
}

var errPlaces = errors.New("a path is not a list of hops")

// mostSteps bounds the hops of a path that is read.
const mostSteps = 1 << 12

// mostPlaces bounds the bytes of a path that is read.
const mostPlaces = 1 << 20

// parsePlaces reads what placesText writes. Who follows the hops of a path relies on what is checked here: each
// hop comes after the one before it, and either all hops or none have a predecessor, or a name.
func parsePlaces(text string) ([]step, error) {
	if len(text) > mostPlaces {
		return nil, errPlaces
	}
	var list [][]any
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) > mostSteps {
		return nil, errPlaces
	}
	steps := make([]step, len(list))
	for i, fields := range list {
		if len(fields) < 3 || len(fields) > 6 {
			return nil, errPlaces
		}
		var n [5]int64
		for k, f := range fields[:min(5, len(fields))] {
			v, ok := f.(float64)
			if n[k] = int64(v); !ok || v < -1<<15 || v > 1<<16-1 {
				return nil, errPlaces
			}
		}
		s := step{Node: uint16(n[0]), In: uint16(n[1]), Out: uint16(n[2]), Flags: uint8(n[3]), From: int16(n[4])}
		if s.Flags&stepNamed != 0 {
			if len(fields) < 6 {
				return nil, errPlaces
			}
			name, ok := fields[5].(string)
			if !ok {
				return nil, errPlaces
			}
			s.Name = name
		}
		const all = stepTree | stepNamed
		if i > 0 && s.Flags&all != steps[0].Flags&all {
			return nil, errPlaces
		}
		// Without a tree From says nothing, and is 0 also at the first hop.
		if none := s.Flags&stepTree == 0 && n[4] == 0; !none && (n[4] < -1 || n[4] >= int64(i)) {
			return nil, errPlaces // a hop that comes before itself
		}
		steps[i] = s
	}
	return steps, nil
}
