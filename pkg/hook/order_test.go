// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/need"
)

// named loads a program that does nothing.
func named(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SchedCLS, License: license,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, tcNext), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestBehind: programs of two systems stand in their order, whichever was attached first, and so
// does one that was attached again. Others' programs come behind ours.
func TestBehind(t *testing.T) {
	if !Probe().TCX {
		need.Lack(t, need.Kernel, "TCX: Linux 6.6")
	}
	dir := newPins(t)
	p := newPair(t)
	index := p.Index("b", "e0")
	names := map[string]string{"outer": "rdr_outer", "inner": "int_inner"}
	foreign := named(t, "somebody")
	for n, order := range [][]string{{"outer", "inner"}, {"inner", "outer"}, {"inner", "outer", "outer"}, {"outer", "inner", "inner"}, {"inner"}, {"outer"}} {
		for _, d := range []Direction{Ingress, Egress} {
			p.in("b", func() error {
				held, err := Attach(foreign, TCX{Ifindex: index, Direction: d})
				if err != nil {
					return err
				}
				defer held.Close()
				at := map[string]TC{
					"outer": {By: ByTCX, Ifindex: index, Direction: d},
					"inner": {By: ByTCX, Ifindex: index, Direction: d, Behind: []string{"rdr_out"}},
				}
				var pins []string
				for i, who := range order {
					tc := at[who]
					tc.Pin = filepath.Join(dir, fmt.Sprintf("%d-%v-%d", n, d, i))
					pins = append(pins, tc.Pin)
					if err := tc.Attach(named(t, names[who])); err != nil {
						return err
					}
				}
				got, want := at["inner"].point().names(t), slices.Clone(order)
				slices.SortFunc(want, func(a, b string) int { return -strings.Compare(a, b) }) // outer before inner
				want = append(want, "somebody")
				for i := range want {
					if i >= len(got) || !strings.HasSuffix(got[i], want[i]) {
						t.Errorf("%v, attached %v: they stand %v, want %v", d, order, got, want)
						break
					}
				}
				for _, pin := range pins {
					if err := Detach(pin); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
}

// names are those of the programs at the hook, in their order.
func (t TCX) names(test *testing.T) (list []string) {
	test.Helper()
	there, err := link.QueryPrograms(link.QueryOptions{Target: t.Ifindex, Attach: t.kind()})
	if err != nil {
		test.Fatal(err)
	}
	for _, p := range there.Programs {
		list = append(list, programName(p.ID))
	}
	return list
}

// TestUpdate: another program takes the place of the one that stands there, by whichever way.
func TestUpdate(t *testing.T) {
	dir := newPins(t)
	for _, by := range ways(t) {
		p := newPair(t)
		at := TC{By: by, Ifindex: p.Index("b", "e0"), Pin: filepath.Join(dir, by), Name: "test"}
		p.in("b", func() error {
			if _, err := EnsureClsact(at.Ifindex); err != nil {
				return err
			}
			return at.Attach(newTC(t, tcNext))
		})
		p.reaches(by)
		p.in("b", func() error { return at.Update(newTC(t, tcDrop)) })
		p.isCut(by + ", updated")
		p.in("b", func() error { return at.Detach() })
		p.reaches(by + ", taken off")
		if err := Update(newTC(t, tcNext), filepath.Join(dir, "none")); err == nil {
			t.Error("a pin that is not there was updated")
		}
	}
}
