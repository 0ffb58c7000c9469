// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/renameio/v2"

	"github.com/vnetradar/radar/pkg/host/statedir"
)

// countedFile is where Counted is kept.
const countedFile = "counted.json"

// Counted says what kernels had counted themselves in nodes as these were attached: what came later is of packets that
// were measured. Only the agent writes it.
type Counted struct {
	Epoch uint32                 `json:"epoch"` // of the domain
	Nodes map[uint16]NodeCounted `json:"nodes"`
}

// NodeCounted is that of a node.
type NodeCounted struct {
	Inum     uint32            `json:"inum"`           // of its namespace: another one counts anew
	Late     bool              `json:"late,omitempty"` // nobody could note what it had counted as it was attached
	Counters map[string]uint64 `json:"counters,omitempty"`
}

// ErrCountedDamaged is of what was written and makes no sense: it will not get better by itself.
var ErrCountedDamaged = errors.New("what nodes had counted is damaged")

// LoadCounted reads what the agent of the domain has written; nothing if it has not, or if that is of an earlier domain
// of this name. ErrCountedDamaged: it is to be made anew.
func LoadCounted(d *Domain) (*Counted, error) {
	none := &Counted{Epoch: d.Epoch, Nodes: make(map[uint16]NodeCounted)}
	if err := statedir.CheckInRoot(Dir(d.Name)); err != nil {
		return none, err
	}
	path := File(d.Name, countedFile)
	b, err := statedir.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("read what nodes had counted: %w", err)
	}
	var c Counted
	if err := json.Unmarshal(b, &c); err != nil {
		return none, fmt.Errorf("%w: %s: %w", ErrCountedDamaged, path, err)
	}
	if c.Epoch != d.Epoch || c.Nodes == nil {
		return none, nil
	}
	return &c, nil
}

// Save writes it.
func (c *Counted) Save(name string) error {
	b, err := json.Marshal(c)
	if err == nil {
		err = renameio.WriteFile(File(name, countedFile), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write what nodes had counted: %w", err)
	}
	return nil
}

// Since is what a node has counted since it was attached. known is false if nobody knows what it had counted then: it is
// all that the node has counted.
func (c *Counted) Since(n *Node, now map[string]uint64) (since map[string]uint64, known bool) {
	before, known := c.Nodes[n.ID]
	if !known || before.Inum != n.Inum || before.Late {
		return now, false
	}
	since = make(map[string]uint64)
	for name, value := range now {
		if was := before.Counters[name]; value > was {
			since[name] = value - was
		}
	}
	return since, true
}
