// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
	"github.com/vnetradar/radar/pkg/words"
)

const (
	// shortestSleep makes bursts of what is due in that time: timers are not more exact.
	shortestSleep = time.Millisecond
	// mostLate is what is caught up with: a source that is slower than its rate stays slower,
	// and sends no burst of seconds when it was stopped.
	mostLate = 500 * time.Millisecond
)

// generating is the sending of reports.
type generating struct {
	*kit.Kit
	next     func(n uint64) (d generate.Datagram, due time.Duration, err error)
	replay   *replaying // nil: made
	paced    bool       // what is due later waits
	count    uint64
	duration time.Duration

	sent, reports, failed uint64
	failure               error // the last one
	took                  time.Duration
	file                  string // "": sent
}

// each hands over what is due until the end: of the count, of the duration, of the file.
func (g *generating) each(ctx context.Context, put func(generate.Datagram, time.Duration) error) error {
	for n := uint64(0); (g.count == 0 || n < g.count) && ctx.Err() == nil; n++ {
		d, due, err := g.next(n)
		timed := g.duration > 0 && (g.paced || g.file != "") // else the clock says when it is over
		if errors.Is(err, io.EOF) || err == nil && timed && due >= g.duration {
			return nil
		}
		if err != nil {
			return err
		}
		if err := put(d, due); errors.Is(err, errEnd) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// errEnd ends each.
var errEnd = errors.New("the end")

// send sends to one address, each datagram when it is due.
func (g *generating) send(ctx context.Context, to string) error {
	addr, err := resolve(to)
	if err != nil {
		return err
	}
	conn, err := collect.Dial(ctx, addr.AddrPort())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetWriteDeadline(time.Unix(1, 0)) })()
	begin := time.Now()
	defer func() { g.took = time.Since(begin) }()
	late := time.Duration(0) // what is not caught up with
	return g.each(ctx, func(d generate.Datagram, due time.Duration) error {
		now := time.Since(begin)
		passed := now
		if g.paced { // what is due within the duration is sent, if a little later
			passed = due + late
		}
		if g.duration > 0 && passed >= g.duration {
			return errEnd
		}
		if g.paced {
			wait := due + late - now
			if wait > 0 && !sleep(ctx, max(wait, shortestSleep)) {
				return errEnd
			}
			late += max(0, -wait-mostLate)
		}
		if _, err := conn.Write(d.Payload); err != nil {
			if ctx.Err() == nil {
				g.failed++
				g.failure = err
			}
			return nil
		}
		g.sent++
		g.reports += uint64(d.Reports)
		return nil
	})
}

// sleep says whether it slept all the time.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Ends of datagrams that are only written: addresses for documentation (RFC 5737).
var (
	writtenFrom = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), ReportPort)
	writtenTo   = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 2}), ReportPort)
)

// write writes a capture file of what would be sent, with the times at which it is due.
func (g *generating) write(ctx context.Context, path string) (err error) {
	g.file = path
	out := g.ForPrograms()
	if path == "-" && kit.IsTerminal(out) {
		return fault.Usage.Errorf("a capture file is not for a terminal: --write FILE, or redirect it")
	}
	if path != "-" {
		file, err := os.Create(path)
		if err != nil {
			return fmt.Errorf("write capture: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	buffer := bufio.NewWriterSize(out, 1<<16)
	pcap := pcapgo.NewWriterNanos(buffer)
	if err := pcap.WriteFileHeader(1<<16, layers.LinkTypeRaw); err != nil {
		return fmt.Errorf("write capture: %w", err)
	}
	var ip []byte
	err = g.each(ctx, func(d generate.Datagram, due time.Duration) error {
		var err error
		if ip, err = collect.AppendUDP(ip[:0], writtenFrom, writtenTo, d.Payload); err != nil {
			return fmt.Errorf("write capture: %w", err)
		}
		begin := startOfTime
		if g.replay != nil && !g.replay.paced {
			begin = g.replay.begin
		}
		info := gopacket.CaptureInfo{Timestamp: begin.Add(due), CaptureLength: len(ip), Length: len(ip)}
		if err := pcap.WritePacket(info, ip); err != nil {
			return fmt.Errorf("write capture: %w", err)
		}
		g.sent++
		g.reports += uint64(d.Reports)
		return nil
	})
	if failed := buffer.Flush(); failed != nil && err == nil {
		err = fmt.Errorf("write capture: %w", failed)
	}
	return err
}

// generated is what was done, for -o json.
type generated struct {
	Datagrams uint64  `json:"datagrams"`
	Reports   uint64  `json:"reports,omitempty"` // absent: they were replayed
	Errors    uint64  `json:"errors"`
	Parts     int     `json:"parts"`
	Seconds   float64 `json:"seconds,omitempty"`
	Rate      float64 `json:"rate,omitempty"` // datagrams a second
}

// print says what was done.
func (g *generating) print() error {
	done := generated{Datagrams: g.sent, Reports: g.reports, Errors: g.failed, Seconds: g.took.Seconds()}
	if g.took > 0 {
		done.Rate = float64(g.sent) / g.took.Seconds()
	}
	if g.replay != nil {
		done.Parts = g.replay.parts()
	}
	if g.Output == kit.FormatJSON && g.file != "-" {
		if err := kit.PrintJSON(g.Out, done); err != nil {
			return err
		}
		return g.nothing()
	}
	what := words.Plural(int(g.sent), "datagram")
	if g.reports > 0 {
		what += " with " + words.Plural(int(g.reports), "report")
	}
	if g.file != "" {
		fmt.Fprintf(g.Stderr, "radar: %s written\n", what)
	} else {
		fmt.Fprintf(g.Stderr, "radar: %s sent in %s, %.0f/s\n", what, words.Duration(float64(g.took)), done.Rate)
	}
	if g.failed > 0 {
		fmt.Fprintf(g.Stderr, "radar: %s could not be sent, the last: %v\n", words.Plural(int(g.failed), "datagram"), g.failure)
	}
	if done.Parts > 0 {
		fmt.Fprintf(g.Stderr, "radar: %s left out: cut, or fragments\n", words.Plural(done.Parts, "packet"))
	}
	return g.nothing()
}

// nothing is the failure of a sender that could not send anything.
func (g *generating) nothing() error {
	if g.sent == 0 && g.failed > 0 {
		return fmt.Errorf("nothing could be sent: %w", g.failure)
	}
	return nil
}
