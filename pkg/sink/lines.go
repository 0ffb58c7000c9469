// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// eventLine and valueLine are objects of JSON lines, server-sent events and /values; a contract
// (docs/int/collect.md).
type eventLine struct {
	Kind string `json:"kind"` // event
	metrics.EventJSON
}

type valueLine struct {
	Kind  string `json:"kind"`          // value
	Taken int64  `json:"snapshot_t_ns"` // the same in all values of a snapshot, Unix ns
	metrics.RowJSON
}

// Encoder writes events and values as JSON objects, one a line (docs/int/collect.md).
type Encoder struct {
	namer metrics.Namer
	json  *json.Encoder
}

// NewEncoder makes an encoder that writes to w.
func NewEncoder(n metrics.Namer, w io.Writer) Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return Encoder{n, enc}
}

// Event writes an event.
func (e Encoder) Event(ev *metrics.Event) error {
	return e.json.Encode(eventLine{"event", e.namer.Event(ev)})
}

// Value writes a value as it was at a time, Unix ns.
func (e Encoder) Value(r *metrics.Row, at int64) error {
	return e.json.Encode(valueLine{"value", at, e.namer.Row(r)})
}

// linesAtOnce is about how many bytes are written by one call.
const linesAtOnce = 1 << 16

// Lines writes JSON lines.
type Lines struct {
	w     io.Writer
	log   *slog.Logger
	enc   Encoder
	buf   bytes.Buffer
	lines uint64 // in buf

	failures episode
	tally    *Tally
}

// NewLines makes the output. w stays the caller's.
func NewLines(w io.Writer, n metrics.Namer, log *slog.Logger) *Lines {
	l := &Lines{w: w, log: log}
	l.enc = NewEncoder(n, &l.buf)
	return l
}

// Name implements Output.
func (l *Lines) Name() string { return "json" }

// Run implements Output.
func (l *Lines) Run(ctx context.Context, q <-chan Item, n *Tally) error {
	l.tally = n
	for it := range q {
		if err := l.add(ctx, it); err != nil {
			return err
		}
		// What waits goes by the same call.
		for len(q) > 0 && l.buf.Len() < linesAtOnce {
			if err := l.add(ctx, <-q); err != nil {
				return err
			}
		}
		if err := l.flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lines) add(ctx context.Context, it Item) error {
	if it.Snapshot == nil {
		l.lines++
		return l.enc.Event(&it.Event)
	}
	defer it.Release()
	for i := range it.Snapshot.Rows {
		l.lines++
		if err := errors.Join(l.enc.Value(&it.Snapshot.Rows[i], it.Snapshot.At), l.flushIfFull(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lines) flushIfFull(ctx context.Context) error {
	if l.buf.Len() < linesAtOnce {
		return nil
	}
	return l.flush(ctx)
}

// flush writes what is there. A full disk may have room again: it goes on where it stopped, so
// that no line is torn. Where nobody reads any more, that is the end.
func (l *Lines) flush(ctx context.Context) error {
	for wait := firstRetry; l.buf.Len() > 0; wait = min(2*wait, lastRetry) {
		_, err := l.buf.WriteTo(l.w)
		if err == nil {
			break
		}
		if errors.Is(err, syscall.EPIPE) {
			l.tally.GivenUp.Add(l.lines)
			return fmt.Errorf("write JSON lines: %w", err)
		}
		if l.failures.news(time.Now(), err.Error()) {
			l.log.Warn("JSON lines cannot be written, and are tried again", "error", err)
		}
		l.tally.Retries.Add(1)
		if !pause(ctx, wait) {
			l.tally.GivenUp.Add(l.lines)
			l.buf.Reset()
			l.lines = 0
			return nil
		}
	}
	l.tally.Written.Add(l.lines)
	l.lines = 0
	return nil
}

// Times between attempts double from the first to the last.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// pause waits, and says whether ctx is not done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
