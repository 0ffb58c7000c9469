// SPDX-License-Identifier: Apache-2.0

package int

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
)

// budget is how many instructions the verifier may look at for both programs of a node: each attach of a node, and each
// change of its watchlist, waits for that.
const budget = 60_000

// TestVerified holds the verifier's work below the budget, with and without what kernels before 6.2 lack.
func TestVerified(t *testing.T) {
	need.AsRoot(t)
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	for _, has := range []uint8{0, 1} {
		vars := known(t)
		if has > vars["cfg_queues"].(uint8) {
			continue
		}
		spec, err := bpfobj.LoadInt()
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]any{"cfg_times": vars["cfg_times"], "cfg_queues": has, "cfg_entries": uint32(1)} {
			if err := spec.Variables[name].Set(v); err != nil {
				t.Fatal(name, err)
			}
		}
		total := uint32(0)
		coll, err := ebpf.NewCollection(spec)
		var refused *ebpf.VerifierError
		if errors.As(err, &refused) {
			t.Fatalf("%v\n%v", err, refused.Log[max(0, len(refused.Log)-40):])
		}
		if err != nil {
			t.Fatal(err)
		}
		defer coll.Close()
		for name, prog := range coll.Programs {
			info, err := prog.Info()
			if err != nil {
				t.Fatal(err)
			}
			looked, _ := info.VerifiedInstructions() // 0 where the kernel does not tell (before 5.16)
			t.Logf("queues %d: %-20s %7d", has, name, looked)
			total += looked
		}
		if total > budget {
			t.Errorf("the verifier looks at %d instructions, more than %d", total, budget)
		}
	}
}
