// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// netlinkBuffer is how many bytes of messages the kernel keeps: a large ruleset comes at once.
const netlinkBuffer = 4 << 20

// ListenAll opens a socket of a netlink protocol that gets what the groups tell of the thread's
// namespace and of all that have a number there. filter is nil, or what the socket takes; the
// groups are joined after that. The caller closes the file.
func ListenAll(protocol int, filter *unix.SockFprog, groups []int) (*os.File, syscall.RawConn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, nil, fmt.Errorf("open netlink socket: %w", err)
	}
	sock := os.NewFile(uintptr(fd), "netlink")
	if err := joinAll(fd, filter, groups); err != nil {
		sock.Close()
		return nil, nil, fmt.Errorf("netlink protocol %d: %w", protocol, err)
	}
	conn, err := sock.SyscallConn()
	if err != nil {
		sock.Close()
		return nil, nil, err
	}
	return sock, conn, nil
}

func joinAll(fd int, filter *unix.SockFprog, groups []int) error {
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind socket: %w", err)
	}
	if filter != nil {
		if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, filter); err != nil {
			return fmt.Errorf("filter messages: %w", err)
		}
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			return fmt.Errorf("listen to group %d: %w", group, err)
		}
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1); err != nil {
		return fmt.Errorf("listen to all namespaces: %w", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, netlinkBuffer) // else the default holds, and more is lost
	return nil
}

// NSIDOf returns the number of the namespace that a message of ListenAll's is from, by what came beside it (the
// control messages of Recvmsg); -1: the socket's own.
func NSIDOf(oob []byte) int {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return -1
	}
	for _, m := range msgs {
		if m.Header.Level == unix.SOL_NETLINK && m.Header.Type == unix.NETLINK_LISTEN_ALL_NSID && len(m.Data) >= 4 {
			return int(int32(binary.NativeEndian.Uint32(m.Data)))
		}
	}
	return -1
}

// Attributes gives the netlink attributes in b, up to one that is not whole. Kinds are without their flags; values
// are parts of b.
func Attributes(b []byte) func(yield func(kind uint16, value []byte) bool) {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			n := int(binary.NativeEndian.Uint16(b))
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if n < unix.SizeofRtAttr || n > len(b) || !yield(kind, b[unix.SizeofRtAttr:n]) {
				return
			}
			b = b[min(len(b), (n+3)&^3):]
		}
	}
}
