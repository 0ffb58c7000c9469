// SPDX-License-Identifier: Apache-2.0

// Package offload reads and switches what an interface does for the kernel, as "ethtool -k" shows it: the
// segmentation of trains of packets, and checksums. Its functions work in the network namespace of the
// calling thread.
package offload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// IsSegments reports whether a feature makes, or lets pass, buffers that hold several packets, or
// checksums that are not there yet.
func IsSegments(name string) bool {
	switch name {
	case "rx-gro", "rx-gro-hw", "rx-gro-list", "rx-udp-gro-forwarding", "tx-gso-list", "tx-gso-partial",
		"tx-checksum-ipv4", "tx-checksum-ipv6", "tx-checksum-ip-generic":
		return true
	}
	return strings.HasPrefix(name, "tx-") && strings.HasSuffix(name, "-segmentation")
}

// On returns the features of an interface that are on, and could be switched off, among those that want
// asks for.
func On(device string, want func(name string) bool) (names []string, err error) {
	all, err := open(device)
	if err != nil {
		return nil, err
	}
	defer all.close()
	state, err := all.state()
	if err != nil {
		return nil, err
	}
	for i, name := range all.names {
		b, bit := state[i/32], uint32(1)<<(i%32)
		if b.active&bit != 0 && b.available&bit != 0 && b.never&bit == 0 && want(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Set switches features on or off. What the interface has not is passed over. The kernel may switch others
// with them, of which it says that they need each other.
func Set(device string, names []string, on bool) error {
	all, err := open(device)
	if err != nil {
		return err
	}
	defer all.close()
	wanted := make(map[string]bool)
	for _, name := range names {
		wanted[name] = true
	}
	b := make([]byte, 8+8*all.blocks())
	binary.NativeEndian.PutUint32(b, unix.ETHTOOL_SFEATURES)
	binary.NativeEndian.PutUint32(b[4:], uint32(all.blocks()))
	for i, name := range all.names {
		if !wanted[name] {
			continue
		}
		at, bit := b[8+8*(i/32):], uint32(1)<<(i%32)
		binary.NativeEndian.PutUint32(at, binary.NativeEndian.Uint32(at)|bit) // valid
		if on {
			binary.NativeEndian.PutUint32(at[4:], binary.NativeEndian.Uint32(at[4:])|bit)
		}
	}
	return all.ask("switch offloads", b)
}

// block is struct ethtool_get_features_block.
type block struct{ available, requested, active, never uint32 }

// features are those that the kernel knows, at one interface.
type features struct {
	device string
	fd     int
	names  []string // by bit; "": none
}

func open(device string) (*features, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	f := &features{device: device, fd: fd}
	if err := f.list(); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *features) close()      { unix.Close(f.fd) }
func (f *features) blocks() int { return (len(f.names) + 31) / 32 }

// list asks for the names.
func (f *features) list() error {
	const setFeatures, nameBytes = 4, 32 // ETH_SS_FEATURES, ETH_GSTRING_LEN
	sizes := make([]byte, 16+4)
	binary.NativeEndian.PutUint32(sizes, unix.ETHTOOL_GSSET_INFO)
	binary.NativeEndian.PutUint64(sizes[8:], 1<<setFeatures)
	if err := f.ask("count offloads", sizes); err != nil {
		return err
	}
	n := int(binary.NativeEndian.Uint32(sizes[16:]))
	texts := make([]byte, 12+n*nameBytes)
	binary.NativeEndian.PutUint32(texts, unix.ETHTOOL_GSTRINGS)
	binary.NativeEndian.PutUint32(texts[4:], setFeatures)
	binary.NativeEndian.PutUint32(texts[8:], uint32(n))
	if err := f.ask("name offloads", texts); err != nil {
		return err
	}
	for i := range n {
		name, _, _ := bytes.Cut(texts[12+i*nameBytes:12+(i+1)*nameBytes], []byte{0})
		f.names = append(f.names, string(name))
	}
	return nil
}

func (f *features) state() ([]block, error) {
	n := f.blocks()
	b := make([]byte, 8+16*n)
	binary.NativeEndian.PutUint32(b, unix.ETHTOOL_GFEATURES)
	binary.NativeEndian.PutUint32(b[4:], uint32(n))
	if err := f.ask("read offloads", b); err != nil {
		return nil, err
	}
	list := make([]block, n)
	for i := range list {
		at := b[8+16*i:]
		list[i] = block{binary.NativeEndian.Uint32(at), binary.NativeEndian.Uint32(at[4:]), binary.NativeEndian.Uint32(at[8:]), binary.NativeEndian.Uint32(at[12:])}
	}
	return list, nil
}

// ifreq is struct ifreq with a pointer.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// ask makes the call that b begins with, which is answered in b.
func (f *features) ask(what string, b []byte) error {
	r := ifreq{data: unsafe.Pointer(&b[0])}
	copy(r.name[:unix.IFNAMSIZ-1], f.device)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(f.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&r)))
	runtime.KeepAlive(b)
	if errno != 0 {
		return fmt.Errorf("%s of %s: %w", what, f.device, errno)
	}
	return nil
}
