// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

func sumOf(t *testing.T, change func(*ebpf.CollectionSpec)) string {
	t.Helper()
	spec, err := bpfobj.LoadTc()
	if err != nil {
		t.Fatal(err)
	}
	change(spec)
	sum := sha256.New()
	addObject(sum, spec)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// One instruction, one constant or one map more makes other programs of it.
func TestProgramsChange(t *testing.T) {
	same := sumOf(t, func(*ebpf.CollectionSpec) {})
	if again := sumOf(t, func(*ebpf.CollectionSpec) {}); again != same {
		t.Errorf("%s, and then %s", same, again)
	}
	for what, change := range map[string]func(*ebpf.CollectionSpec){
		"instruction": func(s *ebpf.CollectionSpec) {
			p := s.Programs[bpfobj.TcProgRadarEgress]
			p.Instructions = append(p.Instructions, asm.Return())
		},
		"number in an instruction": func(s *ebpf.CollectionSpec) {
			p := s.Programs[bpfobj.TcProgRadarEgress]
			p.Instructions[len(p.Instructions)/2].Constant++
		},
		"constant": func(s *ebpf.CollectionSpec) {
			if err := s.Variables[bpfobj.TcVarCfgWatch].Set(uint8(1)); err != nil {
				t.Fatal(err)
			}
		},
		"map": func(s *ebpf.CollectionSpec) { s.Maps[bpfobj.TcMapRing].ValueSize++ },
	} {
		if sumOf(t, change) == same {
			t.Errorf("another %s is not noticed", what)
		}
	}
}

// Lines of the source are no part of them: a comment more is no other program.
func TestProgramsDebug(t *testing.T) {
	other := sumOf(t, func(s *ebpf.CollectionSpec) {
		for _, p := range s.Programs {
			for i := range p.Instructions {
				p.Instructions[i] = p.Instructions[i].WithSource(asm.Comment("another line"))
			}
		}
	})
	if other != sumOf(t, func(*ebpf.CollectionSpec) {}) {
		t.Error("an object from other lines is another one")
	}
}
