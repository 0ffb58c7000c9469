// SPDX-License-Identifier: Apache-2.0

package test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/pkg/bpfobj"
)

func TestLoad(t *testing.T) {
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	for _, load := range []func() (*ebpf.CollectionSpec, error){bpfobj.LoadTc, bpfobj.LoadTrace} {
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
		info, _ := p.Info()
		vi, _ := info.VerifiedInstructions()
		ji, _ := info.JitedSize()
		ii, _ := info.Instructions()
		t.Logf("%s: verified %d, xlated %d, jited %d", name, vi, len(ii), ji)
	}
}
