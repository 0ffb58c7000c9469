// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"testing"

	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/payload"
)

// capturedBytes is how much payload is captured of each datagram.
const capturedBytes = 40

// withPayload captures payload at all ports while datagrams are sent. Of each the capture must have, at every port, what was
// sent. Then it ends.
func withPayload(t *testing.T, d *domain.Domain, send func()) {
	t.Helper()
	c, err := payload.Open(d, payload.Options{Len: capturedBytes, At: func(string, string) bool { return true }})
	if err != nil {
		t.Fatalf("capture payload: %v", err)
	}
	defer c.Close()
	send()
	maps, err := backpack.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	c.Drain()
	found := 0
	backpack.ScanPackets(maps, backpack.NewDecoder(d, nil), backpack.ScanOptions{}, func(p *packet.Packet) {
		if p.Proto != record.ProtoUDP {
			return
		}
		size := int(p.Len) - ipBytes - udpBytes // sendDatagrams() makes them so
		want := datagram(addrH2, size/7, size)[ipBytes:][:udpBytes+min(size, capturedBytes)]
		parts := c.Take(p.Pos)
		for _, part := range parts {
			if !bytes.Equal(part.Data, want) || part.Length != udpBytes+size || part.Header != udpBytes {
				t.Errorf("payload of %d bytes at %s/%s: %+v, want %x", size, part.Node, part.Port, part, want)
			}
		}
		if len(parts) == 4 { // h1 out, r1 in and out, h2 in
			found++
		}
	})
	// The first one has none.
	if n, err := c.Counts(); found != datagrams-1 || err != nil || n.RingFull+n.Unreadable > 0 {
		t.Errorf("payload of %d datagrams at all four ports, want %d: %+v, %v", found, datagrams-1, n, err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("end the capture of payload: %v", err)
	}
}
