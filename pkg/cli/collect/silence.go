// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"time"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/words"
)

// hintAfter is when a collector that no report has reached says why that may be.
const hintAfter = 10 * time.Second

// silence says once why no report has come to sockets.
type silence struct {
	after time.Duration
	due   time.Time // zero: nothing is to be said
	then  collect.Dropped
}

// noteDrops notes what the kernel has dropped before. What comes by an interface or from a file is
// dropped by nobody.
func (s *silence) noteDrops(c *collecting) {
	for _, in := range c.inputs {
		if _, ok := in.(*collect.Socket); !ok {
			return
		}
	}
	if len(c.inputs) == 0 {
		return
	}
	var err error
	if s.then, err = collect.ReadDropped(); err != nil {
		c.Notef("should no report come, nothing will say why: %v", err)
		return
	}
	s.due = time.Now().Add(s.after)
}

// sayWhenDue says what there is to be said, when it is time.
func (s *silence) sayWhenDue(k *kit.Kit, now time.Time, i *collect.Info) {
	if s.due.IsZero() || now.Before(s.due) {
		return
	}
	s.due = time.Time{}
	if i.Counts.Reports > 0 {
		return
	}
	if s.sayWhy(k, i) {
		return
	}
	s.due = now.Add(s.after) // it is only quiet, until now
}

// sayWhy says why no report has come, if there is something to be said.
func (s *silence) sayWhy(k *kit.Kit, i *collect.Info) bool {
	var lines []string
	if n := i.Counts.Rejected; n > 0 {
		lines = append(lines, fmt.Sprintf("%s came that hold no report: capture them, radar int decode -r FILE shows what they are", words.Plural(int(n), "datagram")))
	}
	if i.Refused > 0 {
		lines = append(lines, fmt.Sprintf("%s came of sources that are not among those of --allow", words.Plural(int(i.Refused), "datagram")))
	}
	dropped, err := collect.ReadDropped()
	if err != nil {
		k.Notef("no report has come yet, and nothing says why: %v", err)
		return true
	}
	if since := dropped.Since(s.then); len(since) > 0 {
		lines = append(lines, "meanwhile the kernel has dropped here, reports or not:")
		for _, line := range since {
			lines = append(lines, "  "+line)
		}
	}
	if len(lines) == 0 {
		return false
	}
	fmt.Fprintln(k.Stderr, "radar: no report has come yet")
	for _, line := range lines {
		fmt.Fprintf(k.Stderr, "radar: %s\n", line)
	}
	return true
}
