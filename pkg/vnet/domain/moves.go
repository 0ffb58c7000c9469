// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/google/renameio/v2"

	"github.com/vnetradar/radar/pkg/host/statedir"
)

// movesFile is where Moves are kept.
const movesFile = "moves.json"

// How many changes are remembered: of one node, and of all. Whoever controls a node can make
// any number of them.
const (
	maxNodeMoves = 256
	maxMoves     = 4096
)

// Moves says which addresses nodes have got and lost while the domain was attached. The
// programs are told of a change when the agent has noticed it. What they noted meanwhile is
// read with the help of this. Only the agent writes it.
type Moves struct {
	Epoch   uint32 `json:"epoch"`   // of the domain
	Changes []Move `json:"changes"` // of each node in the order in which they happened
	// Forgotten is, by node, up to when changes have happened that are not in the list any more.
	Forgotten map[uint16]uint64 `json:"forgotten,omitempty"`
}

// Move is one change: a node has got an address, or has lost it. Times are CLOCK_MONOTONIC in ns.
type Move struct {
	Node  uint16     `json:"node"`
	Addr  netip.Addr `json:"addr"`
	Owned bool       `json:"owned"` // the node has it since
	// It happened after the one time and before the other; After is 0 where that is not known.
	After  uint64 `json:"after_ns"`
	Before uint64 `json:"before_ns"`
}

// Add adds a change. The oldest ones are forgotten when there are too many.
func (m *Moves) Add(move Move) {
	m.Changes = append(m.Changes, move)
	of := func(c Move) bool { return c.Node == move.Node }
	n := 0
	for _, c := range m.Changes {
		if of(c) {
			n++
		}
	}
	switch {
	case n > maxNodeMoves:
		m.forget(slices.IndexFunc(m.Changes, of))
	case len(m.Changes) > maxMoves:
		m.forget(0)
	}
}

func (m *Moves) forget(i int) {
	if m.Forgotten == nil {
		m.Forgotten = make(map[uint16]uint64)
	}
	old := m.Changes[i]
	m.Forgotten[old.Node] = max(m.Forgotten[old.Node], old.Before)
	m.Changes = slices.Delete(m.Changes, i, i+1)
}

// LoadMoves reads what the agent of the domain has written; nothing if it has not, or if that
// is of an earlier domain of this name.
func LoadMoves(d *Domain) (*Moves, error) {
	none := &Moves{Epoch: d.Epoch}
	if err := statedir.CheckInRoot(Dir(d.Name)); err != nil {
		return none, err
	}
	b, err := statedir.ReadFile(MovesFile(d.Name))
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read which addresses have moved: %w", err)
	}
	var m Moves
	if err := json.Unmarshal(b, &m); err != nil {
		return none, fmt.Errorf("read which addresses have moved: %s: %w", MovesFile(d.Name), err)
	}
	if m.Epoch != d.Epoch {
		return none, nil
	}
	return &m, nil
}

// MovesFile is the path of the file.
func MovesFile(name string) string { return File(name, movesFile) }

// Save writes it.
func (m *Moves) Save(name string) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write which addresses have moved: %w", err)
	}
	if err := renameio.WriteFile(MovesFile(name), b, 0o600); err != nil {
		return fmt.Errorf("write which addresses have moved: %w", err)
	}
	return nil
}
