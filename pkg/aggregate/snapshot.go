// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"hash/crc64"
)

// A snapshot file: header, then the payload (gob of snapshot).
//
//	magic "radaragg" | version u32 | epoch u32 | CRC-64 of the payload u64
//
// Numbers are little-endian.
const (
	magic           = "radaragg"
	snapshotVersion = 1
	headerBytes     = len(magic) + 4 + 4 + 8
)

// Why a snapshot cannot be continued.
var (
	ErrForeign = errors.New("snapshot is of another domain or another version of radar")
	ErrDamaged = errors.New("snapshot is damaged")
)

var crcTable = crc64.MakeTable(crc64.ECMA)

// snapshot is Aggregates, and a Follower's state, as gob writes it.
type snapshot struct {
	Totals     Totals
	Paths      map[string]pathState
	Nodes      map[uint16]latencyState
	Links      map[ports]latencyState
	Pairs      map[nodePair]latencyState
	All        latencyState
	Losses     map[place]tally
	LocalDrops map[place]tally
	Flows      []uint64
	Follower   []byte
}

type pathState struct {
	ID, Packets, Bytes, Flows, OverFlows uint64
	Delivered, Left, Lost, Expired       uint64
	Latency                              latencyState
}

// encode makes a snapshot of a and of a Follower's state.
func (a *Aggregates) encode(epoch uint32, follower []byte) ([]byte, error) {
	s := snapshot{
		Totals: a.totals, All: a.all.state(), Follower: follower,
		Paths: make(map[string]pathState, len(a.paths)),
		Nodes: states(a.nodes), Links: states(a.links), Pairs: states(a.pairs),
		Losses: values(a.losses), LocalDrops: values(a.localDrops),
		Flows: make([]uint64, 0, len(a.flows)),
	}
	for key, p := range a.paths {
		s.Paths[key] = pathState{
			p.id, p.packets, p.bytes, p.flows, p.overFlows,
			p.delivered, p.left, p.lost, p.expired, p.latency.state(),
		}
	}
	for h := range a.flows {
		s.Flows = append(s.Flows, h)
	}
	var b bytes.Buffer
	b.Write(make([]byte, headerBytes))
	if err := gob.NewEncoder(&b).Encode(&s); err != nil {
		return nil, fmt.Errorf("encode snapshot: %w", err)
	}
	out := b.Bytes()
	head := append(out[:0], magic...)
	head = binary.LittleEndian.AppendUint32(head, snapshotVersion)
	head = binary.LittleEndian.AppendUint32(head, epoch)
	binary.LittleEndian.AppendUint64(head, crc64.Checksum(out[headerBytes:], crcTable))
	return out, nil
}

// decode reads a snapshot. It returns ErrForeign or ErrDamaged.
func decode(b []byte, epoch uint32) (a *Aggregates, follower []byte, err error) {
	if len(b) < headerBytes || string(b[:len(magic)]) != magic {
		return nil, nil, ErrDamaged
	}
	head, payload := b[len(magic):headerBytes], b[headerBytes:]
	if binary.LittleEndian.Uint32(head) != snapshotVersion || binary.LittleEndian.Uint32(head[4:]) != epoch {
		return nil, nil, ErrForeign
	}
	if binary.LittleEndian.Uint64(head[8:]) != crc64.Checksum(payload, crcTable) {
		return nil, nil, ErrDamaged
	}
	var s snapshot
	if err := gob.NewDecoder(bytes.NewReader(payload)).Decode(&s); err != nil {
		return nil, nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	if a, err = s.aggregates(); err != nil {
		return nil, nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return a, s.Follower, nil
}

// aggregates is the reverse of encode.
func (s *snapshot) aggregates() (*Aggregates, error) {
	a := New()
	a.totals = s.Totals
	all, err := s.All.latency()
	if err != nil {
		return nil, err
	}
	a.all = all
	if err := errors.Join(
		restore(a.nodes, s.Nodes), restore(a.links, s.Links), restore(a.pairs, s.Pairs),
	); err != nil {
		return nil, err
	}
	for key, st := range s.Paths {
		if len(key)%hopBytes != 1 {
			return nil, fmt.Errorf("path key of %d bytes", len(key))
		}
		l, err := st.Latency.latency()
		if err != nil {
			return nil, err
		}
		p := &path{
			id: st.ID, packets: st.Packets, bytes: st.Bytes, flows: st.Flows, overFlows: st.OverFlows,
			delivered: st.Delivered, left: st.Left, lost: st.Lost, expired: st.Expired, latency: l,
		}
		a.paths[key] = p
		a.connect(p, key)
	}
	for k, t := range s.Losses {
		a.losses[k] = &t
	}
	for k, t := range s.LocalDrops {
		a.localDrops[k] = &t
	}
	for _, h := range s.Flows {
		a.flows[h] = struct{}{}
	}
	return a, nil
}

func states[K comparable](m map[K]*latency) map[K]latencyState {
	out := make(map[K]latencyState, len(m))
	for k, l := range m {
		out[k] = l.state()
	}
	return out
}

func restore[K comparable](m map[K]*latency, from map[K]latencyState) error {
	for k, s := range from {
		l, err := s.latency()
		if err != nil {
			return err
		}
		m[k] = l
	}
	return nil
}

func values[K comparable](m map[K]*tally) map[K]tally {
	out := make(map[K]tally, len(m))
	for k, t := range m {
		out[k] = *t
	}
	return out
}
