// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"bytes"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strconv"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
)

// parseValue reads a number, a MAC address (48 bits), or an IP address (32 and 128 bits). P4Runtime
// wants the shortest form: no leading zero bytes.
func parseValue(s string, width int32) ([]byte, error) {
	n := new(big.Int)
	if mac, err := net.ParseMAC(s); err == nil && width == 48 && len(mac) == 6 {
		n.SetBytes(mac)
	} else if ip, err := netip.ParseAddr(s); err == nil && int(width) == ip.BitLen() {
		n.SetBytes(ip.AsSlice())
	} else if _, ok := n.SetString(s, 0); !ok {
		return nil, fmt.Errorf("%q is neither a number nor an address of %d bits", s, width)
	}
	if n.Sign() < 0 || n.BitLen() > int(width) {
		return nil, fmt.Errorf("%s does not fit into %d bits", s, width)
	}
	return shortest(n.Bytes()), nil
}

func shortest(b []byte) []byte {
	if b = bytes.TrimLeft(b, "\x00"); len(b) == 0 {
		return []byte{0}
	}
	return b
}

// hasPriority reports whether entries of the table have one.
func hasPriority(t *p4config.Table) bool {
	for _, f := range t.GetMatchFields() {
		if f.GetMatchType() == p4config.MatchField_TERNARY || f.GetMatchType() == p4config.MatchField_RANGE {
			return true
		}
	}
	return false
}

// match reads a key: VALUE, VALUE/LENGTH, VALUE&&&MASK or LOW->HIGH. It is nil where every value matches:
// P4Runtime wants such fields to be left out.
func match(f *p4config.MatchField, s string) (*p4.FieldMatch, error) {
	width := f.GetBitwidth()
	m := &p4.FieldMatch{FieldId: f.GetId()}
	switch f.GetMatchType() {
	case p4config.MatchField_EXACT:
		v, err := parseValue(s, width)
		m.FieldMatchType = &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: v}}
		return m, err
	case p4config.MatchField_LPM:
		prefix, length, _ := strings.Cut(s, "/")
		v, err := parseValue(prefix, width)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > int(width) {
			return nil, fmt.Errorf("%q is no VALUE/LENGTH", s)
		}
		if n == 0 {
			return nil, nil
		}
		m.FieldMatchType = &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: v, PrefixLen: int32(n)}}
		return m, nil
	case p4config.MatchField_TERNARY:
		return ternary(m, s, width)
	case p4config.MatchField_RANGE:
		return between(m, s, width)
	}
	return nil, fmt.Errorf("keys of kind %v are not known", f.GetMatchType())
}

func between(m *p4.FieldMatch, s string, width int32) (*p4.FieldMatch, error) {
	low, high, ok := strings.Cut(s, "->")
	if !ok {
		return nil, fmt.Errorf("%q is no LOW->HIGH", s)
	}
	a, err := parseValue(low, width)
	if err != nil {
		return nil, err
	}
	b, err := parseValue(high, width)
	if err != nil {
		return nil, err
	}
	least, most := new(big.Int).SetBytes(a), new(big.Int).SetBytes(b)
	if least.Cmp(most) > 0 {
		return nil, fmt.Errorf("%s: the first is greater than the second", s)
	}
	if least.Sign() == 0 && most.Cmp((&Field{Bits: int(width)}).ones()) == 0 {
		return nil, nil
	}
	m.FieldMatchType = &p4.FieldMatch_Range_{Range: &p4.FieldMatch_Range{Low: a, High: b}}
	return m, nil
}

func ternary(m *p4.FieldMatch, s string, width int32) (*p4.FieldMatch, error) {
	value, mask, ok := strings.Cut(s, "&&&")
	if !ok {
		return nil, fmt.Errorf("%q is no VALUE&&&MASK", s)
	}
	v, err := parseValue(value, width)
	if err != nil {
		return nil, err
	}
	k, err := parseValue(mask, width)
	if err != nil {
		return nil, err
	}
	a, b := new(big.Int).SetBytes(v), new(big.Int).SetBytes(k)
	if new(big.Int).AndNot(a, b).Sign() != 0 {
		return nil, fmt.Errorf("%s has bits that the mask has not", s)
	}
	if b.Sign() == 0 {
		return nil, nil
	}
	m.FieldMatchType = &p4.FieldMatch_Ternary_{Ternary: &p4.FieldMatch_Ternary{Value: v, Mask: k}}
	return m, nil
}
