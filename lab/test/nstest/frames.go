// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Frames sends Ethernet frames out of a port as they are, by a packet socket; their
// protocol is the one that they have (packet(7)).
type Frames struct {
	fd int
	to *unix.SockaddrLinklayer
}

// OpenFrames opens a port of the namespace in which it is called. The caller closes it.
func OpenFrames(port string) (*Frames, error) {
	itf, err := net.InterfaceByName(port)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	return &Frames{fd, &unix.SockaddrLinklayer{Ifindex: itf.Index}}, nil
}

// Bypass lets the frames that follow go past the port's queue and the programs of TC, as another machine's would come.
func (f *Frames) Bypass() error {
	return unix.SetsockoptInt(f.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1)
}

// Offload says that a header is in front of the frames that follow (virtio_net_hdr): what the kernel is to do with each.
func (f *Frames) Offload() error {
	return unix.SetsockoptInt(f.fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1)
}

// Send sends one frame. ENOBUFS: the port had no room, and has dropped it.
func (f *Frames) Send(frame []byte) error { return unix.Sendto(f.fd, frame, 0, f.to) }

// Close closes the socket.
func (f *Frames) Close() error { return unix.Close(f.fd) }

// SendFrame is OpenFrames for one frame.
func SendFrame(port string, frame []byte) error {
	f, err := OpenFrames(port)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Send(frame)
}

// SendFrameBypassing is SendFrame after Bypass.
func SendFrameBypassing(port string, frame []byte) error {
	f, err := OpenFrames(port)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Bypass(); err != nil {
		return err
	}
	return f.Send(frame)
}
