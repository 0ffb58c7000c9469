// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

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
