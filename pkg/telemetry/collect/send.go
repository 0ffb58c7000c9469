// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotUnicast: reports go to one collector, which an address of many is not.
var ErrNotUnicast = errors.New("not the address of one machine")

// everyone is the limited broadcast address (RFC 919).
var everyone = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// Dial opens a socket that sends to one unicast address only. A subnet's broadcast address, which
// only routes tell from others, is refused by the kernel (EACCES), others that are not unicast with
// ErrNotUnicast. The connection is the caller's to close.
func Dial(ctx context.Context, to netip.AddrPort) (*net.UDPConn, error) {
	if a := to.Addr().Unmap(); !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a == everyone {
		return nil, fmt.Errorf("send reports to %v: %w", to, ErrNotUnicast)
	}
	dialer := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) { // package net sets it on every socket
			failed = os.NewSyscallError("SO_BROADCAST", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 0))
		})
		return errors.Join(err, failed)
	}}
	conn, err := dialer.DialContext(ctx, "udp", to.String())
	if err != nil {
		return nil, fmt.Errorf("send reports: %w", err)
	}
	return conn.(*net.UDPConn), nil
}
