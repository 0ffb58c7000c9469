// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf/perf"

	"github.com/vnetradar/radar/pkg/host/clock"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

const (
	// metaBytes is the size of struct collect_up.
	metaBytes = 32
	// atMostOnce is how often the kernel wakes the reader at most.
	atMostOnce = time.Millisecond
	// sweepEvery is how often what templates have taken is asked for, at least; and at most a
	// part in sweepShare of the time goes into it.
	sweepEvery, sweepShare = time.Second, 20
)

// Receive gives the collector what goes up, and accounts for the rest, until Stop.
func (p *Path) Receive(c *collect.Collector) error {
	var rec perf.Record
	sweepDue := time.Now().Add(sweepEvery)
	for {
		p.reader.SetDeadline(sweepDue)
		err := p.reader.ReadInto(&rec)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, perf.ErrFlushed): // by Stop: all that there was has been read
			return p.Sweep(c)
		case errors.Is(err, perf.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read what comes from XDP: %w", err)
		case len(rec.RawSample) > metaBytes:
			if err := p.take(c, rec.RawSample); err != nil {
				return err
			}
			if rec.Remaining == 0 {
				time.Sleep(atMostOnce)
			}
		}
		if begin := time.Now(); begin.After(sweepDue) {
			if err := p.Sweep(c); err != nil {
				return err
			}
			end := time.Now()
			sweepDue = end.Add(max(sweepEvery, sweepShare*end.Sub(begin)))
		}
	}
}

// take gives the collector one packet.
func (p *Path) take(c *collect.Collector, b []byte) error {
	at, key, number := binary.NativeEndian.Uint64(b), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])
	ip := int(binary.NativeEndian.Uint32(b[24:]))
	packet := b[metaBytes:]
	if ip >= len(packet) {
		return nil
	}
	since := time.Duration(clock.Monotonic() - at)
	return c.AddUp(collect.Packet{At: time.Now().Add(-since), IP: withoutPadding(packet[ip:])}, key, number)
}

// withoutPadding cuts a packet to the length that it says: frames are padded.
func withoutPadding(ip []byte) []byte {
	n := len(ip)
	switch {
	case len(ip) >= 20 && ip[0]>>4 == 4:
		n = int(binary.BigEndian.Uint16(ip[2:]))
	case len(ip) >= 40:
		n = 40 + int(binary.BigEndian.Uint16(ip[4:]))
	}
	if n > len(ip) {
		return ip
	}
	return ip[:n:n]
}

// Sweep accounts for what all templates have taken, and removes those that have been idle for
// long.
func (p *Path) Sweep(c *collect.Collector) error {
	p.now = time.Now()
	for key, f := range p.flows {
		if err := c.Account(key); err != nil {
			return err
		}
		if p.age > 0 && p.now.Sub(f.used) > p.age {
			if err := p.remove(key, f); err != nil {
				return err
			}
		}
	}
	return nil
}
