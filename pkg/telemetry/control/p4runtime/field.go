// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// Kind is how a field is matched.
type Kind = p4config.MatchField_MatchType

// Kinds of fields.
const (
	Exact   Kind = p4config.MatchField_EXACT
	LPM     Kind = p4config.MatchField_LPM
	Ternary Kind = p4config.MatchField_TERNARY
	Range   Kind = p4config.MatchField_RANGE
)

// Field is a match field of a table.
type Field struct {
	Name string
	Bits int
	Kind Kind
}

// Fields are those of a table, in order.
func (p *Program) Fields(table string) (list []Field) {
	for _, f := range p.tables[table].GetMatchFields() {
		list = append(list, Field{f.GetName(), int(f.GetBitwidth()), f.GetMatchType()})
	}
	return list
}

// Params are the parameters of an action, in order.
func (p *Program) Params(action string) (names []string) {
	for _, param := range p.actions[action].GetParams() {
		names = append(names, param.GetName())
	}
	return names
}

func (f *Field) ones() *big.Int {
	return new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(f.Bits)), big.NewInt(1))
}

// One is the key that matches one value, as Commands reads it.
func (f Field) One(v string) string {
	switch f.Kind {
	case LPM:
		return fmt.Sprintf("%s/%d", v, f.Bits)
	case Ternary:
		return fmt.Sprintf("%s&&&0x%x", v, f.ones())
	case Range:
		return v + "->" + v
	}
	return v
}

// Any is the key that matches everything. Exact fields have none.
func (f Field) Any() (string, error) {
	switch f.Kind {
	case LPM:
		return "0/0", nil
	case Ternary:
		return anyValue, nil
	case Range:
		return fmt.Sprintf("0->%v", f.ones()), nil
	}
	return "", fmt.Errorf("the table matches it exactly: an entry needs a value")
}

// Address is the key of an address or prefix. A field of 32 bits has addresses of IPv4; one of 128 has both, those of IPv4 as RFC 4291
// (2.5.5.2) writes them.
func (f Field) Address(text string) (string, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return "", fmt.Errorf("%q is neither an address nor a prefix", text)
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	p = p.Masked()
	bits, addr := p.Bits(), p.Addr()
	switch {
	case f.Bits == 32 && !addr.Is4():
		return "", fmt.Errorf("%v: the program matches IPv4 alone", p)
	case f.Bits == 128 && addr.Is4():
		bits += 96
	case f.Bits != 32 && f.Bits != 128:
		return "", fmt.Errorf("a field of %d bits has no address", f.Bits)
	}
	value := new(big.Int).SetBytes(addr.AsSlice())
	if f.Bits == 128 {
		all := addr.As16()
		value.SetBytes(all[:])
	}
	mask := new(big.Int).Lsh(f.ones(), uint(f.Bits-bits))
	mask.And(mask, f.ones())
	switch {
	case f.Kind == LPM:
		return fmt.Sprintf("0x%x/%d", value, bits), nil
	case f.Kind == Ternary && bits == 0:
		return anyValue, nil
	case f.Kind == Ternary:
		return fmt.Sprintf("0x%x&&&0x%x", value, mask), nil
	case f.Kind == Range:
		return fmt.Sprintf("0x%x->0x%x", value, new(big.Int).Or(value, new(big.Int).AndNot(f.ones(), mask))), nil
	case bits == f.Bits:
		return fmt.Sprintf("0x%x", value), nil
	}
	return "", fmt.Errorf("%v: the program matches single addresses alone", p)
}

// Ports is the key of a port or a range of ports.
func (f Field) Ports(text string) (string, error) {
	low, high, isRange := strings.Cut(text, "-")
	switch {
	case f.Kind == Range && isRange:
		return low + "->" + high, nil
	case f.Kind == Ternary:
		return portKey(text)
	case isRange:
		return "", fmt.Errorf("ports %s: the program matches single ports alone", text)
	}
	return f.One(text), nil
}

// PortNumber is the number of a device's port.
func (r *Reach) PortNumber(name string) (uint16, error) {
	if n, ok := r.Ports[name]; ok {
		return n, nil
	}
	if n, err := strconv.ParseUint(name, 10, 9); err == nil {
		return uint16(n), nil
	}
	known := make([]string, 0, len(r.Ports))
	for k := range r.Ports {
		known = append(known, k)
	}
	slices.Sort(known)
	return 0, &control.FieldError{Field: "options.ports", Text: fmt.Sprintf("port %q has no number; there are %s", name, strings.Join(append(known, "numbers"), ", "))}
}
