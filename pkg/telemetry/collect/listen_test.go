// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/vnetradar/radar/lab/test/nstest"
)

// TestFinish: what waits in a socket at the end is taken, or counted, and what found no room is
// counted too, also if no datagram came after it.
func TestFinish(t *testing.T) {
	t.Parallel()
	const sent = 2000
	fill := func(t *testing.T, buffer int) *Socket {
		t.Helper()
		s, err := Listen(netip.MustParseAddr("127.0.0.1"), 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if buffer > 0 {
			if err := s.conn.SetReadBuffer(buffer); err != nil {
				t.Fatal(err)
			}
		}
		conn, err := net.Dial("udp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range sent {
			if _, err := conn.Write([]byte("report")); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	t.Run("taken", func(t *testing.T) {
		s := fill(t, 0)
		taken, done := 0, make(chan error)
		go func() {
			for {
				if _, err := s.Receive(); err != nil {
					done <- err
					return
				}
				taken++
			}
		}()
		left := s.Finish(nstest.Patience)
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if taken+int(s.SocketDrops()) != sent || left != 0 || taken == 0 {
			t.Errorf("%d taken, %d left, %d found no room, of %d", taken, left, s.SocketDrops(), sent)
		}
	})
	t.Run("left", func(t *testing.T) {
		s := fill(t, 0)
		if left := s.Finish(0); left+s.SocketDrops() != sent || left == 0 {
			t.Errorf("%d left, %d found no room, of %d", left, s.SocketDrops(), sent)
		}
	})
	t.Run("no room", func(t *testing.T) {
		s := fill(t, 1<<14)
		if left := s.Finish(0); left+s.SocketDrops() != sent || s.SocketDrops() == 0 {
			t.Errorf("%d left, %d found no room, of %d", left, s.SocketDrops(), sent)
		}
	})
}
