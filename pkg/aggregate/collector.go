// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/renameio/v2"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
)

// Collector follows a domain's ring into aggregates. The snapshot holds the
// aggregates together with the place in the ring, so every packet counts once, by
// whichever process. One process may save, any number may open and poll.
type Collector struct {
	path     string
	epoch    uint32
	follower *backpack.Follower
	agg      *Aggregates
	saved    uint64 // the follower's progress in the snapshot
	state    []byte // the follower's, as last saved: its memory is used again
}

// Open continues from the snapshot at path. Without one it begins with the oldest
// packet of the ring; those before it are unread. The same if the snapshot is damaged,
// or of another domain (epoch): then note says so, and that what was counted before is
// gone.
func Open(src backpack.Source, dec *backpack.Decoder, epoch uint32, path string, o backpack.FollowOptions) (c *Collector, note string, err error) {
	c = &Collector{path: path, epoch: epoch, agg: New(dec.WallOffset()), follower: backpack.NewFollower(src, dec, o)}
	c.follower.FromStart()
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read aggregates: %w", err)
	}
	agg, state, err := decode(b, epoch)
	if err == nil {
		err = c.follower.Restore(state)
	}
	if err != nil {
		return c, fmt.Sprintf("counting anew from the oldest packet of the ring: %s: %v", path, err), nil
	}
	agg.offset = c.agg.offset
	c.agg = agg
	c.saved = c.follower.Progress()
	return c, "", nil
}

// AsItStands makes ends count at once that may still be withdrawn, for a collector
// that polls once and is not saved.
func (c *Collector) AsItStands() { c.follower.AsItStands() }

// Poll adds what has become final since the last poll.
func (c *Collector) Poll() error {
	if err := c.follower.Poll(c.agg.Add); err != nil {
		return fmt.Errorf("follow ring: %w", err)
	}
	c.agg.settle(c.follower.Final)
	return nil
}

// Save replaces the snapshot as a whole, if anything has changed since the last.
func (c *Collector) Save() error {
	progress := c.follower.Progress()
	if progress == c.saved {
		return nil
	}
	c.state = c.follower.AppendState(c.state[:0])
	if err := replace(c.path, c.agg.encode(c.epoch, c.state)); err != nil {
		return fmt.Errorf("save aggregates: %w", err)
	}
	c.saved = progress
	return nil
}

// replace makes chunks the contents of a file, as a whole or not at all.
func replace(path string, chunks [][]byte) error {
	file, err := renameio.NewPendingFile(path, renameio.WithPermissions(0o600))
	if err != nil {
		return err
	}
	defer file.Cleanup()
	for _, b := range chunks {
		if _, err := file.Write(b); err != nil {
			return err
		}
	}
	return file.CloseAtomicallyReplace()
}

// Aggregates returns what has been counted; the Collector goes on adding to it.
func (c *Collector) Aggregates() *Aggregates { return c.agg }

// InFlight calls fn with every packet that had not ended at the last Poll. The Packet is valid during the call
// only.
func (c *Collector) InFlight(fn func(*packet.Packet)) { c.follower.InFlight(fn) }

// Totals returns the counts, with what is still in flight and what was missed.
func (c *Collector) Totals() Totals {
	t, s := c.agg.Totals(), c.follower.Stats()
	t.InFlight, t.Unread, t.Torn = s.InFlight, s.Unread, s.Torn
	return t
}
