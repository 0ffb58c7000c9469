// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
)

// replaying is a capture file at work.
type replaying struct {
	*kit.Kit
	f       *generateOptions
	paced   bool // by --rate
	replay  *generate.Replay
	close   func()
	sent    uint64        // of this round
	begin   time.Time     // capture time of the very first
	first   time.Time     // and of the round's
	offset  time.Duration // when the round began
	latest  time.Duration // when the last one was due
	skipped int           // parts of datagrams, in rounds before
}

func openReplay(k *kit.Kit, f *generateOptions, paced bool) (*replaying, error) {
	r := &replaying{Kit: k, f: f, paced: paced}
	return r, r.open()
}

func (r *replaying) open() error {
	capture, closeFile, err := r.OpenCapture(r.f.file)
	if err != nil {
		return err
	}
	var ports []uint16
	for _, port := range r.f.ports {
		ports = append(ports, uint16(port))
	}
	r.replay, r.close, r.sent = generate.NewReplay(capture, ports), closeFile, 0
	return nil
}

// next returns datagram n and when it is due.
func (r *replaying) next(n uint64) (generate.Datagram, time.Duration, error) {
	d, err := r.replay.Next()
	if errors.Is(err, io.EOF) && r.sent == 0 {
		return d, 0, fmt.Errorf("%s has no whole datagram to ports %v", r.f.file, r.f.ports)
	}
	if errors.Is(err, io.EOF) && r.f.loop {
		if err := r.again(); err != nil {
			return d, 0, err
		}
		d, err = r.replay.Next()
	}
	if errors.Is(err, io.EOF) {
		return d, 0, io.EOF
	}
	if err != nil {
		return d, 0, fmt.Errorf("read capture %s: %w", r.f.file, err)
	}
	if r.sent == 0 {
		r.first = d.At
	}
	if n == 0 {
		r.begin = d.At
	}
	r.sent++
	if r.paced {
		return d, r.f.rate.due(n), nil
	}
	r.latest = max(r.latest, r.offset+d.At.Sub(r.first)) // captures are not always in order
	return d, r.latest, nil
}

// again begins the next round, as long behind the last datagram as they are apart.
func (r *replaying) again() error {
	gap := time.Millisecond
	if r.sent > 1 {
		gap = max(fastest, (r.latest-r.offset)/time.Duration(r.sent-1))
	}
	r.offset = r.latest + gap
	r.skipped += r.replay.Parts()
	r.close()
	return r.open()
}

// parts is how many packets could not be replayed.
func (r *replaying) parts() int { return r.skipped + r.replay.Parts() }
