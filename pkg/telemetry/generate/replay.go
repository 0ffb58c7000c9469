// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/vnetradar/radar/pkg/telemetry/collect"
)

// Datagram is the payload of one UDP datagram.
type Datagram struct {
	Payload []byte    // a Maker's is valid until its next one
	Reports int       // that are in it; 0 of a Replay, which does not look into it
	At      time.Time // when it was captured; zero of a Maker
}

// Replay gives the datagrams of a capture file that go to some ports, as they are.
type Replay struct {
	capture *collect.Capture
	ports   []uint16
	parts   int
}

// NewReplay begins to read a capture, which stays the caller's to close.
func NewReplay(capture *collect.Capture, ports []uint16) *Replay {
	return &Replay{capture: capture, ports: ports}
}

// Next returns the next datagram, which is the caller's. It ends with io.EOF, as it is.
func (r *Replay) Next() (Datagram, error) {
	for {
		packet, err := r.capture.NextPacket()
		if err != nil {
			return Datagram{}, err
		}
		port, payload, err := packet.UDP()
		switch {
		case errors.Is(err, collect.ErrPart):
			// A later fragment has no port: it counts, whatever it was of.
			if port == 0 || slices.Contains(r.ports, port) {
				r.parts++
			}
		case err == nil && slices.Contains(r.ports, port):
			return Datagram{Payload: bytes.Clone(payload), At: packet.At}, nil
		}
	}
}

// Parts is how many packets were left out because they are not whole: cut by who captured them, or
// fragments.
func (r *Replay) Parts() int { return r.parts }
