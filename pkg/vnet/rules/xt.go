// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Extensions of xtables: what the kernel keeps of iptables' and ebtables' matches and
// targets. Legacy iptables keeps all of a rule so, iptables-nft what nf_tables cannot say.

// xtBits returns the bits of the mark that a match or a target reads or writes.
func xtBits(target bool, name string, revision byte, info []byte) uint32 {
	at := func(i int) uint32 { // the kernel checks sizes, too; a short one reads as 0
		if i+4 > len(info) {
			return 0
		}
		return binary.NativeEndian.Uint32(info[i:])
	}
	long := func(i int) uint32 { // of C's unsigned long, the 32 bits that count
		if i+8 > len(info) {
			return 0
		}
		return uint32(binary.NativeEndian.Uint64(info[i:]))
	}
	if !target {
		switch name {
		case "mark": // xt_mark_mtinfo1: mark, mask
			return at(4)
		case "mark_m": // ebt_mark_m_info: mark, mask, whether any of them or all
			return long(8)
		case "rpfilter": // xt_rpfilter_info: flags, of which XT_RPFILTER_VALID_MARK
			if len(info) > 0 && info[0]&2 != 0 {
				return AllMarks
			}
		case "socket": // xt_socket_mtinfo3: flags, of which XT_SOCKET_RESTORESKMARK
			if len(info) > 0 && info[0]&4 != 0 {
				return AllMarks
			}
		}
		return 0
	}
	switch name {
	case "MARK": // xt_mark_tginfo2: mark = (mark & ~mask) ^ value
		return at(0) | at(4)
	case "CONNMARK": // xt_connmark_tginfo1, 2: ctmark, ctmask, nfmask, of 2 the shift, mode
		mode, shift := 12, byte(0)
		if revision > 1 {
			mode = 14
		}
		if mode >= len(info) || info[mode] == 0 { // it sets the connection's only
			return 0
		}
		if revision > 1 {
			shift = info[13]
		}
		if shift != 0 {
			return AllMarks
		}
		return at(8)
	case "TPROXY": // xt_tproxy_target_info: mask, value
		return at(0) | at(4)
	case "HMARK":
		return AllMarks
	case "CT": // xt_ct_target_info: flags, of which XT_CT_ZONE_MARK
		if len(info) >= 2 && binary.NativeEndian.Uint16(info)&16 != 0 {
			return AllMarks
		}
	case "SET": // xt_set_info_target_v3: three sets, flags, of which IPSET_FLAG_MAP_SKBMARK
		if at(12)&(1<<8) != 0 {
			return AllMarks
		}
	case "mark": // ebt_mark_t_info: mark, what to do with it
		switch at(8) | 0xf {
		case 0xffffffef, 0xffffffcf: // or, exclusive or
			return long(0)
		case 0xffffffdf: // and
			return ^long(0)
		}
		return AllMarks
	}
	return 0
}

// xtFamily is an IP version of legacy iptables: where the kernel lists its tables, how they
// are asked for, and how entries lie in them.
type xtFamily struct {
	tool, names      string
	domain, level    int
	entry            int // bytes of an entry before its matches
	toTarget, toNext int // where an entry says where its target and the next entry begin
}

var xtFamilies = []xtFamily{
	{"iptables", "ip_tables_names", unix.AF_INET, unix.SOL_IP, 112, 88, 90},
	{"ip6tables", "ip6_tables_names", unix.AF_INET6, unix.SOL_IPV6, 168, 140, 142},
}

// Socket options of ip_tables and ip6_tables, and what they fill.
const (
	xtGetInfo    = 64
	xtGetEntries = 65
	xtNameLen    = 32
	xtInfoLen    = 84 // ipt_getinfo; its last word is the size of all entries
	xtHeader     = 40 // ipt_get_entries before the entries
	xtExtHeader  = 32 // xt_entry_match, xt_entry_target: size:16, name, revision
	// xtMost bounds what is read of one table: a quarter of a million rules.
	xtMost = 64 << 20
)

// xtUse is a rule of a legacy table that touches the mark.
type xtUse struct {
	tool, table string
	number      int // of the table's entries, from 0
	mask        uint32
}

func (u *xtUse) conflict() Conflict {
	return Conflict{What: u.tool, Text: fmt.Sprintf("-t %s: rule %d of all", u.table, u.number+1), Mask: u.mask}
}

// xtTables goes through the legacy tables that the thread's namespace has. It makes no table: the kernel
// would, for whoever asks for one by name.
func xtTables(yield func(f *xtFamily, table string) bool) {
	for i := range xtFamilies {
		f := &xtFamilies[i]
		names, _ := os.ReadFile("/proc/thread-self/net/" + f.names)
		for table := range strings.FieldsSeq(string(names)) {
			if !yield(f, table) {
				return
			}
		}
	}
}

// xtUses reads the legacy tables of the thread's namespace. It needs no tool.
func xtUses() (uses []xtUse, err error) {
	for f, table := range xtTables {
		entries, failed := f.entries(table)
		if failed != nil {
			err = fmt.Errorf("read table %s of %s: %w", table, f.tool, failed)
			continue
		}
		bits := make(map[int]uint32)
		f.extensions(entries, func(rule int, x xtExtension) {
			bits[rule] |= xtBits(x.target, x.name, x.revision, x.info)
		})
		for _, rule := range slices.Sorted(maps.Keys(bits)) {
			if bits[rule] != 0 {
				uses = append(uses, xtUse{f.tool, table, rule, bits[rule]})
			}
		}
	}
	return uses, err
}

// xtTries bounds how often a table is asked for that changes meanwhile.
const xtTries = 5

// entries reads a table.
func (f *xtFamily) entries(table string) (entries []byte, err error) {
	_, entries, err = f.read(table)
	return entries, err
}

// read reads a table, with what the kernel says of it (ipt_getinfo).
func (f *xtFamily) read(table string) (info, entries []byte, err error) {
	fd, err := unix.Socket(f.domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		return nil, nil, err
	}
	defer unix.Close(fd)
	for range xtTries {
		info = make([]byte, xtInfoLen)
		copy(info[:xtNameLen-1], table)
		if err = getsockopt(fd, f.level, xtGetInfo, info); err != nil {
			return nil, nil, err
		}
		size := binary.NativeEndian.Uint32(info[xtInfoLen-4:])
		if size > xtMost {
			return nil, nil, fmt.Errorf("its rules take %d bytes, more than the %d that are looked at", size, xtMost)
		}
		all := make([]byte, xtHeader+int(size))
		copy(all[:xtNameLen-1], table)
		binary.NativeEndian.PutUint32(all[xtNameLen:], size)
		if err = getsockopt(fd, f.level, xtGetEntries, all); err == nil {
			return info, all[xtHeader:], nil
		} // EAGAIN: it has another size by now
	}
	return nil, nil, err
}

// getsockopt fills b, whose beginning the kernel reads.
func getsockopt(fd, level, option int, b []byte) error {
	n := uint32(len(b))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// xtExtension is a match or a target of a rule.
type xtExtension struct {
	target   bool
	name     string
	revision byte
	info     []byte
}

// extensions goes through those of all entries of a table, which count from 0.
func (f *xtFamily) extensions(entries []byte, visit func(rule int, x xtExtension)) {
	for rule := 0; len(entries) >= f.entry; rule++ {
		target := int(binary.NativeEndian.Uint16(entries[f.toTarget:]))
		next := int(binary.NativeEndian.Uint16(entries[f.toNext:]))
		if target < f.entry || next < target || next > len(entries) {
			return
		}
		for at := f.entry; at+xtExtHeader <= next; {
			size := int(binary.NativeEndian.Uint16(entries[at:]))
			if size < xtExtHeader || at+size > next {
				break
			}
			name, _, _ := bytes.Cut(entries[at+2:at+xtExtHeader-1], []byte{0})
			visit(rule, xtExtension{at >= target, string(name), entries[at+xtExtHeader-1], entries[at+xtExtHeader : at+size]})
			at += size
		}
		entries = entries[next:]
	}
}
