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
	c.info.Next, err = store.CapturePackets(path, &c.info, numbers, func(p *collect.Reported) {
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

// Since is when the first packet was sent.
func (c *Capture) Since() time.Time { return c.info.Since }

// OpenCapture opens a capture file, if that can have what is selected.
func OpenCapture(c *Capture, s *Selection) (*Sources, error) {
	all := &Sources{reports: &Reports{info: &c.info, path: c.Path}}
	if err := all.check(s); err != nil {
		return nil, err
	}
	return all, nil
}

// Ring is that of the domain that is attached; nil: there are reports alone.
func (s *Sources) Ring() *Ring { return s.ring }

// HasReports reports whether there are any.
func (s *Sources) HasReports() bool { return s.reports != nil }

// Name is the file's, without its folder.
func (c *Capture) Name() string { return filepath.Base(c.Path) }
