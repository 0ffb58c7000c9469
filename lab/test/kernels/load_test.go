// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/host/kernel"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// TestProgramsLoad loads every program that radar has with all that options can turn on,
// and with slots at their largest.
func TestProgramsLoad(t *testing.T) {
	need.AsRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatalf("raise the limit of locked memory: %v", err)
	}
	features := program.Probe()
	t.Logf("features: %+v", features)
	if !features.LocalIn && !kernel.Older(features.Kernel, 6, 4) {
		t.Errorf("kernel %s should have netfilter programs, but they cannot be used", features.Kernel)
	}
	for _, obj := range bpfobj.Objects {
		if from := obj.From; kernel.Older(features.Kernel, from[0], from[1]) {
			t.Logf("kernel %s lacks what object %s needs (Linux %d.%d)", features.Kernel, obj.Name, from[0], from[1])
			continue
		}
		spec, err := obj.Load()
		if err != nil {
			t.Fatalf("read object %s: %v", obj.Name, err)
		}
		turnOn(t, spec, features)
		for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
			t.Run(obj.Name+"/"+name, func(t *testing.T) { loadOne(t, spec, name) })
		}
	}
}

// turnOn sets the constants without which the verifier would leave code out: a layout
// that uses DSCP bits and the mark, and what the kernel offers.
func turnOn(t *testing.T, spec *ebpf.CollectionSpec, features program.Features) {
	t.Helper()
	o := program.DefaultOptions()
	o.GUIDBits = "22"
	l, err := o.Layout()
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]any{
		bpfobj.TcVarCfgDscpBits: l.DSCPBits, bpfobj.TcVarCfgTtlWidth: l.TTLWidth,
		bpfobj.TcVarCfgTtlBand: l.TTLBand, bpfobj.TcVarCfgBandTop: l.BandTop,
		bpfobj.TcVarCfgMarkMask: l.MarkMask, bpfobj.TcVarCfgMarkShift: l.MarkShift,
	}
	if spec.Programs["radar_collect"] != nil { // as many as there can be
		constants[bpfobj.CollectVarCfgPortCount], constants[bpfobj.CollectVarCfgLocalCount] = uint32(64), uint32(16)
	}
	// What INT nodes ask older kernels for (docs/int/nodes.md).
	for name, from := range map[string][2]int{bpfobj.IntVarCfgTimes: {5, 18}, bpfobj.IntVarCfgQueues: {6, 2}} {
		if kernel.Older(features.Kernel, from[0], from[1]) {
			constants[name] = uint8(0)
		}
	}
	if features.Iterators {
		constants[bpfobj.TcVarCfgIterators] = uint8(1)
	}
	if features.DropReason {
		constants[bpfobj.TcVarCfgHasReason] = uint8(1)
	}
	for name, value := range constants {
		if v := spec.Variables[name]; v != nil {
			if err := v.Set(value); err != nil {
				t.Fatalf("set %s: %v", name, err)
			}
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
	var looked int
	if _, err := fmt.Sscanf(lines[len(lines)-1], "processed %d insns", &looked); err != nil {
		t.Fatalf("how much the verifier looked at: %v in %q", err, lines[len(lines)-1])
	}
	bpf, machine := logProgram(t, p)
	// What lab/test/kernels/sizes.sh reads.
	fmt.Printf("size: %s %d %d %d\n", name, looked, bpf/asm.InstructionSize, machine)
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
// as machine code, in bytes.
func logProgram(t *testing.T, p *ebpf.Program) (bpf, machine int) {
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
	return xlated, int(jited)
}
