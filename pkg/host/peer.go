// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// IsOwn reports whether an address is one of this machine, in this network namespace: of the loopback, of an
// interface, or of a prefix that is routed to itself (AnyIP).
func IsOwn(a netip.Addr) bool {
	if a.Unmap().IsLoopback() {
		return true
	}
	routes, err := netlink.RouteGet(a.Unmap().AsSlice())
	return err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL
}

// ErrNoOwner says that the kernel has no socket there that a user has open.
var ErrNoOwner = errors.New("no socket of a user is there")

// Sizes and places of what sock_diag(7) takes and gives.
const (
	diagRequest   = unix.SizeofNlMsghdr + 56
	diagState     = unix.SizeofNlMsghdr + 1
	diagUID       = unix.SizeofNlMsghdr + 64
	established   = 1          // TCP_ESTABLISHED
	noCookie      = 0xffffffff // INET_DIAG_NOCOOKIE
	diagPatience  = time.Second
	diagOfRequest = unix.SizeofNlMsghdr + 8 // where the socket's id begins
)

// OwnerOf is the user who has the socket at the other end of a TCP connection to this machine: local is that end's
// own address. A socket that was closed belongs to nobody any more.
func OwnerOf(local, remote netip.AddrPort) (uid uint32, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	wait := unix.NsecToTimeval(int64(diagPatience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return 0, err
	}
	if err := unix.Sendto(fd, diagOf(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	switch {
	case err != nil:
		return 0, err
	case n < diagUID+4 || binary.NativeEndian.Uint16(answer[4:]) != unix.SOCK_DIAG_BY_FAMILY || answer[diagState] != established:
		return 0, ErrNoOwner
	}
	return binary.NativeEndian.Uint32(answer[diagUID:]), nil
}

// diagOf asks for one socket: struct inet_diag_req_v2.
func diagOf(local, remote netip.AddrPort) []byte {
	b := make([]byte, diagRequest)
	binary.NativeEndian.PutUint32(b, diagRequest)
	binary.NativeEndian.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	req := b[unix.SizeofNlMsghdr:]
	from, to := local.Addr().Unmap(), remote.Addr().Unmap()
	req[0], req[1] = unix.AF_INET, unix.IPPROTO_TCP
	if from.Is6() {
		req[0] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(req[4:], 1<<established)
	id := b[diagOfRequest:]
	binary.BigEndian.PutUint16(id, local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	copy(id[4:], from.AsSlice())
	copy(id[20:], to.AsSlice())
	binary.NativeEndian.PutUint32(id[40:], noCookie)
	binary.NativeEndian.PutUint32(id[44:], noCookie)
	return b
}
