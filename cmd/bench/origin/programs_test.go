// SPDX-License-Identifier: Apache-2.0

package origin

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// A page with a section of other programs is not up to date, and the error says which it is
// and what to do.
func TestCheckRecorded(t *testing.T) {
	ours, err := Programs(bpfobj.LoadTc)
	if err != nil {
		t.Fatal(err)
	}
	// What programs of a change would be called.
	other, err := Programs(bpfobj.LoadTc, bpfobj.LoadChange)
	if err != nil || other == ours {
		t.Fatal(other, err)
	}
	header := func(programs string) string {
		return "2026-11-22, Linux 6.18.44, 2 CPUs (AMD EPYC), commit b07dc58, programs " + programs
	}
	page := func(name string, headers ...string) string {
		text := "# Figures\n"
		for i, h := range headers {
			text += fmt.Sprintf("\n<!-- part-%d -->\n\n%s:\n\n<!-- /part-%d -->\n", i, h, i)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good := page("good.md", header(ours), header(ours)+"; a short run, its figures are rough")
	if err := CheckRecorded([]string{good, good}, bpfobj.LoadTc); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{header(other), header(ours + "0"), "2026-11-22, Linux 6.18.44, commit b07dc58", "Not recorded yet"} {
		err := CheckRecorded([]string{good, page("bad.md", header(ours), bad)}, bpfobj.LoadTc)
		if err == nil {
			t.Errorf("%s: nothing is wrong", bad)
			continue
		}
		text := err.Error()
		if strings.Contains(text, "good.md") || strings.Contains(text, "part-0") {
			t.Errorf("%s: %v", bad, err)
		}
		for _, want := range []string{"bad.md", "part-1", ours, "run make bench, then make bench-record"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in: %v", bad, want, err)
			}
		}
	}
	if err := CheckRecorded([]string{page("empty.md")}, bpfobj.LoadTc); err == nil {
		t.Error("a page without figures is up to date")
	}
}
