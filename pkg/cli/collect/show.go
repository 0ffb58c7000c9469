// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/telemetry/metrics"
	"github.com/vnetradar/radar/pkg/words"
)

// shownAtOnce is how many lines may wait for who reads standard output.
const shownAtOnce = 4096

// shown prints packets or events as they come.
type shown struct {
	what    string // "packets", "events", "": nothing
	name    metrics.Namer
	lines   chan any // *record.Record or *metrics.EventJSON
	printed chan error
	left    uint64 // out, since nobody read fast enough
}

// beginPrinting begins to print what show hands over.
func (c *collecting) beginPrinting(ctx context.Context) {
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.lines, c.printed = make(chan any, shownAtOnce), make(chan error, 1)
	packets, events := kit.NewPacketPrinter(c.Out, c.Output, c.Location), newEventPrinter(c.Kit)
	go func() {
		var err error
		for line := range c.lines {
			if err == nil {
				switch line := line.(type) {
				case *record.Record:
					err = errors.Join(packets.Add(line), packets.Flush())
				case *metrics.EventJSON:
					err = events.print(line)
				}
				err = errors.Join(err, c.Out.Flush())
			}
			if err != nil {
				c.cancel(err)
			}
		}
		c.printed <- err
	}()
}

// packet shows a packet; nil if that is not asked for.
func (c *collecting) packet() func(*record.Record) {
	if c.what != "packets" {
		return nil
	}
	return func(r *record.Record) { c.show(r) }
}

// event shows an event; nil if that is not asked for.
func (c *collecting) event() func(*metrics.Event) {
	if c.what != "events" {
		return nil
	}
	return func(e *metrics.Event) {
		j := c.name.Event(e)
		c.show(&j)
	}
}

// show hands a line over to be printed. A file waits for the printer; what comes by UDP does not.
func (c *collecting) show(line any) {
	if c.capture != nil {
		select {
		case c.lines <- line:
		case <-c.ctx.Done():
		}
		return
	}
	select {
	case c.lines <- line:
	default:
		c.left++
	}
}

// endPrinting waits until all is printed.
func (c *collecting) endPrinting() error {
	close(c.lines)
	err := <-c.printed
	if c.left > 0 {
		fmt.Fprintf(c.Stderr, "radar: %s were not shown: who reads them is too slow\n", words.Plural(int(c.left), c.what[:len(c.what)-1]))
	}
	return err
}
