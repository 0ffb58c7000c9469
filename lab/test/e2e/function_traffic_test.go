// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// functionSport is the source port of the flow; the IDs of rawFlow hang on it.
const functionSport = 6100

// send sends the flow, of packets with DF set: random IDs, TTLs in and outside of bands.
func (f *function) send(t *testing.T) {
	t.Helper()
	f.sink(t, "h2", functionPort)
	f.sendRaw(t, rawFlow{
		from: "h1", to: "h2", sport: functionSport, dport: functionPort,
		count: functionPackets, gap: functionGap, sizes: mixedSizes,
	})
}

// functionID is the IP ID of packet seq, as rawFlow makes it.
func functionID(seq int) int {
	if id := uint16(seq*40503 + functionSport); id != 0 {
		return int(id)
	}
	return functionPort
}

// sideCapture is a packet socket at one side of the function.
type sideCapture struct{ fd int }

// watch captures IPv4 at a port, in both directions, until the test ends.
func (f *function) watch(t *testing.T, at side) *sideCapture {
	t.Helper()
	w := &sideCapture{}
	err := f.within(at.node, func() error {
		l, err := netlink.LinkByName(at.port)
		if err != nil {
			return err
		}
		w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		if err := unix.SetsockoptInt(w.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20); err != nil {
			return err
		}
		all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}) // big endian
		return unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index})
	})
	if err != nil {
		t.Fatalf("capture at %s/%s: %v", at.node, at.port, err)
	}
	t.Cleanup(func() { unix.Close(w.fd) })
	return w
}

// seen returns the true IDs of the flow's packets that have been captured. They are told
// by their payload: the header may bear radar's bits.
func (w *sideCapture) seen(t *testing.T) map[int]bool {
	t.Helper()
	ids := make(map[int]bool)
	for buf := make([]byte, 1<<16); ; {
		n, _, err := unix.Recvfrom(w.fd, buf, 0)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatalf("read capture: %v", err)
		}
		const at = 20 + 8 // no IP options, UDP
		if b := buf[:n]; n >= at+payloadSeq+4 && b[9] == unix.IPPROTO_UDP && binary.BigEndian.Uint16(b[22:]) == functionPort {
			ids[functionID(int(binary.BigEndian.Uint32(b[at+payloadSeq:])))] = true
		}
	}
	if s, err := unix.GetsockoptTpacketStats(w.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err != nil || s.Drops > 0 {
		t.Fatalf("the capture lost packets: %+v, %v", s, err)
	}
	return ids
}
