// SPDX-License-Identifier: Apache-2.0

package p4runtime

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/vnetradar/radar/lab/test/p4rt"
	"github.com/vnetradar/radar/pkg/telemetry/control"
)

// TestPriorities: an entry that comes or goes changes no other, and the order is that of the state.
func TestPriorities(t *testing.T) {
	s := start(t, new(p4rt.Server))
	c := mustConnect(t, device(s.Address()))
	r := rand.New(rand.NewPCG(3, 4))
	order := []string{"80", "443"}
	state := func() control.State {
		want := wanted()
		want.Entries = nil
		for _, port := range order {
			want.Entries = append(want.Entries, control.Entry{Intent: port, Slice: control.Slice{Dport: []string{port}}, Mode: control.MD, Instructions: 0x8000})
		}
		return want
	}
	if err := c.Apply(t.Context(), state()); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		before := slices.Clone(order)
		if r.IntN(3) == 0 && len(order) > 0 {
			k := r.IntN(len(order))
			order = slices.Delete(order, k, k+1)
		} else {
			order = slices.Insert(order, r.IntN(len(order)+1), fmt.Sprint(1000+i))
		}
		lines, err := c.Plan(t.Context(), state())
		if err != nil || len(lines) != 1 {
			t.Errorf("%v becomes %v: %v, %q", before, order, err, lines)
		}
		if err := c.Apply(t.Context(), state()); err != nil {
			t.Fatal(err)
		}
		list := slices.DeleteFunc(s.Held(), func(e *p4.Entity) bool { return e.GetTableEntry().GetTableId() != 48132632 })
		slices.SortFunc(list, func(x, y *p4.Entity) int {
			return int(y.GetTableEntry().GetPriority() - x.GetTableEntry().GetPriority())
		})
		var got []string
		for _, e := range list {
			v := e.GetTableEntry().GetMatch()[0].GetTernary().GetValue()
			n := 0
			for _, b := range v {
				n = n<<8 | int(b)
			}
			got = append(got, fmt.Sprint(n))
		}
		if !slices.Equal(got, order) {
			t.Fatalf("the switch has them in the order %v, want %v", got, order)
		}
	}
	if n := priorities([]int32{10, 0, 9}); n[0] <= n[1] || n[1] <= n[2] {
		t.Errorf("no room between two entries: %v", n)
	}
}

// TestIPv6Alone: a network of IPv6 that is all addresses has no address of IPv4 in it.
func TestIPv6Alone(t *testing.T) {
	s := start(t, new(p4rt.Server))
	c := mustConnect(t, device(s.Address()))
	want := wanted()
	want.Entries = []control.Entry{{Intent: "six", Slice: control.Slice{Src: []string{"::/0"}, Dst: []string{"2001:db8::/32"}}, Mode: control.MD, Instructions: 0x8000}}
	if err := c.Apply(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	four, six := netip.MustParseAddr("::ffff:10.0.0.1").As16(), netip.MustParseAddr("2001:db8::1").As16()
	matched := make(map[string]int)
	for _, e := range s.Held() {
		if e.GetTableEntry().GetTableId() != 48132632 {
			continue
		}
		src := new(p4.FieldMatch_Ternary) // matches all
		for _, m := range e.GetTableEntry().GetMatch() {
			if m.GetFieldId() == 2 {
				src = m.GetTernary()
			}
		}
		for name, address := range map[string][16]byte{"4": four, "6": six} {
			v, m := make([]byte, 16), make([]byte, 16)
			copy(v[16-len(src.GetValue()):], src.GetValue())
			copy(m[16-len(src.GetMask()):], src.GetMask())
			is := true
			for i := range v {
				is = is && address[i]&m[i] == v[i]
			}
			if is {
				matched[name]++
			}
		}
	}
	if matched["4"] != 0 || matched["6"] != 1 || len(s.Refused()) > 0 {
		t.Errorf("entries of ::/0 that match an address of IPv4 and one of IPv6: %v, refused %v", matched, s.Refused())
	}
}

// TestLevel2: ports have level-2 ids where the options say so, and only then nodes can report them.
func TestLevel2(t *testing.T) {
	s := start(t, new(p4rt.Server))
	d := device(s.Address())
	if a := mustConnect(t, d).Abilities(); a.Instructions != 0xfd00 {
		t.Errorf("without ids it can report %#x", a.Instructions)
	}
	s = start(t, new(p4rt.Server))
	d = device(s.Address())
	d.Options["l2_ports"] = map[string]any{"eth1": 77}
	c := mustConnect(t, d)
	if a := c.Abilities(); a.Instructions != 0xff00 {
		t.Errorf("with ids it can report %#x", a.Instructions)
	}
	if err := c.Apply(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"table_add int.egress_ports int.transit_out 2 => 1400 0 77", "table_add int.ingress_ports int.transit_in 2 => 77"} {
		if !slices.Contains(texts(t, s), line) {
			t.Errorf("%q is not there", line)
		}
	}
}
