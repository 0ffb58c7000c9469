// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// DialAs connects to an address by TCP as another user has it, from one of this machine's addresses. The kernel takes
// a socket for that of who its thread acts for when it makes the socket. It needs root.
func DialAs(t testing.TB, uid int, from, to string) net.Conn {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(uid); err != nil {
		t.Fatal(err)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: Patience}
	conn, err := d.Dial("tcp", to) // of a literal address: on this thread
	if back := unix.Setfsuid(0); back != nil {
		t.Fatal(back)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
