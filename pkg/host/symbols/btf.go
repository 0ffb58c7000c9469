// SPDX-License-Identifier: Apache-2.0

package symbols

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// errBTF: what should be the kernel's BTF has another form.
var errBTF = errors.New("the kernel's BTF has a form that is not known")

// Of include/uapi/linux/btf.h.
const (
	btfMagic      = 0xeb9f
	btfHeaderSize = 24
	btfTypeSize   = 12
	btfEnum       = 6
	btfEnum64     = 19
)

// btfMore is what follows a type of each kind: bytes, and bytes for each of its members.
var btfMore = [...]struct{ size, member int }{
	1: {size: 4}, 3: {size: 12}, 4: {member: 12}, 5: {member: 12}, btfEnum: {member: 8}, 13: {member: 8},
	14: {size: 4}, 15: {member: 12}, 17: {size: 4}, btfEnum64: {member: 12},
}

// findEnums calls fn with the values of those enums that are asked for, in raw BTF. Only these are decoded: a
// kernel has more than 100,000 types.
func findEnums(raw []byte, wanted []string, fn func(enum, name string, value uint64)) error {
	types, names, err := sections(raw)
	if err != nil {
		return err
	}
	for len(types) >= btfTypeSize {
		info := binary.NativeEndian.Uint32(types[4:])
		kind, members := info>>24&0x1f, int(info&0xffff)
		if kind == 0 || kind > btfEnum64 {
			return fmt.Errorf("%w: it has a type of kind %d", errBTF, kind)
		}
		size := btfTypeSize + btfMore[kind].size + members*btfMore[kind].member
		if size > len(types) {
			return errBTF
		}
		if kind == btfEnum || kind == btfEnum64 {
			enum := nameAt(names, types)
			if i := slices.IndexFunc(wanted, func(name string) bool { return name == string(enum) }); i >= 0 {
				readValues(names, types[btfTypeSize:size], btfMore[kind].member, func(name string, value uint64) { fn(wanted[i], name, value) })
			}
		}
		types = types[size:]
	}
	return nil
}

// readValues calls fn with the values of an enum, each of so many bytes.
func readValues(names, values []byte, size int, fn func(name string, value uint64)) {
	for ; len(values) > 0; values = values[size:] {
		value := uint64(binary.NativeEndian.Uint32(values[4:]))
		if size == btfMore[btfEnum64].member {
			value |= uint64(binary.NativeEndian.Uint32(values[8:])) << 32
		}
		fn(string(nameAt(names, values)), value)
	}
}

// sections are the types of raw BTF and their names.
func sections(raw []byte) (types, names []byte, err error) {
	if len(raw) < btfHeaderSize || binary.NativeEndian.Uint16(raw) != btfMagic {
		return nil, nil, errBTF
	}
	u32 := func(at int) uint64 { return uint64(binary.NativeEndian.Uint32(raw[at:])) }
	part := func(at int) []byte {
		from := u32(4) + u32(at)
		if to := from + u32(at+4); to <= uint64(len(raw)) {
			return raw[from:to]
		}
		err = errBTF
		return nil
	}
	return part(8), part(16), err
}

// nameAt is the name whose place b begins with, empty if there is none.
func nameAt(names, b []byte) []byte {
	at := uint64(binary.NativeEndian.Uint32(b))
	if at >= uint64(len(names)) {
		return nil
	}
	name, _, _ := bytes.Cut(names[at:], []byte{0})
	return name
}
