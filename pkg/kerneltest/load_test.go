// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/datapath"
)

// object is one BPF object of pkg/bpfobj.
type object struct {
	name string
	load func() (*ebpf.CollectionSpec, error)
}

var objects = []object{
	{"tc", bpfobj.LoadTc},
	{"trace", bpfobj.LoadTrace},
	{"deliver", bpfobj.LoadDeliver}, // from Linux 6.4 on
}

// TestProgramsLoad loads every program that radar has, as bpf/ describes it: no
// constant but those of the kernel's features is set, so what the options can
// remove is there, and slots have their largest size.
func TestProgramsLoad(t *testing.T) {
	needRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatalf("raise the limit of locked memory: %v", err)
	}
	features := datapath.Probe()
	t.Logf("features: %+v", features)
	if !features.LocalIn && !olderThan(features.Kernel, 6, 4) {
		t.Errorf("kernel %s should have netfilter programs, but they cannot be used", features.Kernel)
	}
	for _, obj := range objects {
		if obj.name == "deliver" && olderThan(features.Kernel, 6, 4) {
			continue
		}
		spec, err := obj.load()
		if err != nil {
			t.Fatalf("read object %s: %v", obj.name, err)
		}
		if v := spec.Variables[bpfobj.TcVarCfgHasReason]; v != nil && features.DropReason {
			if err := v.Set(uint8(1)); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
			t.Run(obj.name+"/"+name, func(t *testing.T) { loadOne(t, spec, name) })
		}
	}
}

// loadOne loads one program with the maps it needs.
func loadOne(t *testing.T, spec *ebpf.CollectionSpec, name string) {
	one := spec.Copy()
	one.Programs = map[string]*ebpf.ProgramSpec{name: one.Programs[name]}
	coll, err := ebpf.NewCollectionWithOptions(one, ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats},
	})
	if err != nil {
		var refused *ebpf.VerifierError
		if errors.As(err, &refused) {
			t.Fatalf("the verifier refuses it: %v\n%s", err, why(one))
		}
		t.Fatalf("load: %v", err)
	}
	defer coll.Close()
	p := coll.Programs[name]
	lines := strings.Split(strings.TrimRight(p.VerifierLog, "\n\x00"), "\n")
	t.Logf("verifier: %s", lines[len(lines)-1])
	logProgram(t, p)
}

// maxLog is how many lines of the verifier's log are shown; its end says why.
const maxLog = 80

// why loads again what was refused and returns the end of the verifier's log.
func why(spec *ebpf.CollectionSpec) string {
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		Programs: ebpf.ProgramOptions{LogLevel: ebpf.LogLevelBranch},
	})
	var refused *ebpf.VerifierError
	if !errors.As(err, &refused) {
		coll.Close()
		return "no log: it was not refused again"
	}
	return strings.Join(refused.Log[max(0, len(refused.Log)-maxLog):], "\n")
}

// logProgram notes how large a loaded program is, rewritten by the verifier and
// as machine code.
func logProgram(t *testing.T, p *ebpf.Program) {
	t.Helper()
	info, err := p.Info()
	if err != nil {
		t.Fatalf("describe program: %v", err)
	}
	xlated, err := info.TranslatedSize()
	if err != nil {
		t.Fatalf("describe program %s: %v", info.Name, err)
	}
	jited, err := info.JitedSize()
	if err != nil {
		t.Fatalf("describe program %s: %v", info.Name, err)
	}
	if jited == 0 {
		t.Errorf("program %s was not compiled to machine code: set net.core.bpf_jit_enable=1", info.Name)
	}
	t.Logf("%s: %d bytes of BPF, %d bytes of machine code", info.Name, xlated, jited)
}
