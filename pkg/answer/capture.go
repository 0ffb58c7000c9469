// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/store"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// Capture is a capture file with telemetry reports, as a source.
type Capture struct {
	Path string
	info collect.Info
}

// captureJoin is how long postcards of one packet are waited for, by the times in the file.
const captureJoin = 200 * time.Millisecond

// ReadCapture reads a capture file once, and fails if it cannot be read, or has no report. names are those of nodes.
func ReadCapture(path string, names map[uint32]string) (*Capture, error) {
	c := &Capture{Path: path, info: collect.Info{Epoch: rand.Uint32(), Names: names, Join: captureJoin, All: true}}
	packets, numbers := 0, &packet.Registry{}
	var err error
	c.info.Next, c.info.Counts, err = store.CapturePackets(path, &c.info, numbers, func(p *collect.Reported) {
		if packets++; packets == 1 {
			c.info.Since = time.Unix(0, p.UnixNs(numbers))
		}
	})
	switch {
	case err != nil:
		return nil, err
	case packets == 0:
		return nil, fmt.Errorf("%s has no telemetry report", path)
	}
	return c, nil
}

// Since implements File.
func (c *Capture) Since() time.Time { return c.info.Since }

// File is what is asked in place of a domain: a capture file, or a recording. It is safe for concurrent use.
type File interface {
	// Open opens it, if it can have what is selected.
	Open(s *Selection) (*Sources, []Note, error)
	// Since is when the first packet was sent; zero: there is none.
	Since() time.Time
	// Now is what times such as "5m ago" count from.
	Now() time.Time
	// Name is the file's, without its folder.
	Name() string
	// AddressesOf puts the addresses of nodes in the place of their names.
	AddressesOf(values []string) ([]string, error)
}

var _, _ File = (*Capture)(nil), (*Recorded)(nil)

// Open implements File.
func (c *Capture) Open(s *Selection) (*Sources, []Note, error) {
	all := &Sources{list: []Source{&Reports{info: &c.info, path: c.Path}}}
	if err := all.check(s); err != nil {
		return nil, nil, err
	}
	return all, nil, nil
}

// Now implements File: reports of a capture come from clocks of all kinds.
func (c *Capture) Now() time.Time { return time.Now() }

// AddressesOf implements File: addresses are not known.
func (c *Capture) AddressesOf(values []string) ([]string, error) { return values, nil }

// Name implements File.
func (c *Capture) Name() string { return filepath.Base(c.Path) }
