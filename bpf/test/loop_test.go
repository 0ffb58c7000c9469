// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

// TestBoundedLoops runs the tests of trains and runs with the loops of kernels that have no iterators
// (bpf/backpack/loop.h). All other tests have iterators where the kernel has them.
func TestBoundedLoops(t *testing.T) {
	if !hasIterators() {
		if !kernel.Older(kernel.Release(), 6, 4) {
			t.Fatalf("kernel %s should have iterators (Linux 6.4), but its types do not name them", kernel.Release())
		}
		t.Skip("before Linux 6.4 the loops of all tests are bounded")
	}
	boundedLoops = true
	defer func() { boundedLoops = false }()
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"TrainWhole", TestTrainWhole},
		{"TrainCut", TestTrainCut},
		{"TrainRejoined", TestTrainRejoined},
		{"TrainCutInside", TestTrainCutInside},
		{"TrainTranslated", TestTrainTranslated},
		{"LongRun", TestLongRun},
		{"TrainByKey", TestTrainByKey},
		{"CutTrainIsReused", TestCutTrainIsReused},
		{"NATOfCutTrain", TestNATOfCutTrain},
		{"MembersFilledLate", TestMembersFilledLate},
	} {
		t.Run(test.name, test.run)
	}
}
