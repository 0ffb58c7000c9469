// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
)

// TestLoad prints what the programs cost the verifier and in size.
func TestLoad(t *testing.T) {
	need.AsRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	loads := []func() (*ebpf.CollectionSpec, error){bpfobj.LoadTc, bpfobj.LoadTrace, bpfobj.LoadChange, bpfobj.LoadPayload}
	if program.Probe().LocalIn {
		loads = append(loads, bpfobj.LoadDeliver)
	}
	for _, load := range loads {
		testLoad(t, load)
	}
}

func testLoad(t *testing.T, load func() (*ebpf.CollectionSpec, error)) {
	spec, err := load()
	if err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{})
	var ve *ebpf.VerifierError
	if errors.As(err, &ve) {
		n := len(ve.Log)
		if n > 60 {
			ve.Log = ve.Log[n-60:]
		}
		t.Fatalf("%+v", ve)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer coll.Close()
	for name, p := range coll.Programs {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		// What an old kernel does not tell is printed as 0.
		verified, _ := info.VerifiedInstructions()
		jited, _ := info.JitedSize()
		insns, _ := info.Instructions()
		t.Logf("%s: %d instructions, %d bytes of machine code, %d instructions verified", name, len(insns), jited, verified)
	}
}
