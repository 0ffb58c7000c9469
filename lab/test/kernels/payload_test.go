// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/packet"
	"github.com/vnetradar/radar/pkg/record"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/payload"
)

// TestPayload: a capture of payload at all ports has, of every datagram at every port, what was sent, however the kernel
// attaches programs.
func TestPayload(t *testing.T) {
	need.AsRoot(t)
	for _, v := range variants {
		if v.name != v.hook || v.hook == program.HookTCX && !program.Probe().TCX {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			o := program.DefaultOptions()
			o.Slots, o.Hook, o.Lease = 1<<16, v.hook, 0
			w, name := newNetwork(t), fmt.Sprintf("rdrkt%d", os.Getpid())
			d := w.attach(t, name, &o).Domain
			t.Cleanup(func() { detach(t, name) })
			c, err := payload.Open(d, payload.Options{Len: 40, At: func(string, string) bool { return true }})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			w.sendDatagrams(t, datagrams)
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
				parts := c.Take(p.Pos)
				size := int(p.Len) - ipBytes - udpBytes
				want := datagram(addrH2, size/7, size)[ipBytes:][:udpBytes+min(size, 40)]
				for _, part := range parts {
					if !bytes.Equal(part.Data, want) || part.Length != udpBytes+size || part.Header != udpBytes {
						t.Errorf("datagram of %d bytes at %s/%s: %+v, want %x", size, part.Node, part.Port, part, want)
					}
				}
				if len(parts) == 4 { // h1 out, r1 in and out, h2 in
					found++
				}
			})
			n, err := c.Counts()
			if found != datagrams-1 || err != nil || n.RingFull+n.Unreadable > 0 {
				t.Errorf("payload of %d datagrams at all four ports, want %d: %+v, %v", found, datagrams-1, n, err) // the first one has none
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
