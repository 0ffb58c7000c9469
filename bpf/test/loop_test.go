// SPDX-License-Identifier: Apache-2.0

package test

import (
	"testing"
)

// TestBoundedLoops runs the tests of trains and runs with the loops of kernels that have no iterators
// (bpf/backpack/loop.h). All other tests have iterators where the kernel has them.
func TestBoundedLoops(t *testing.T) {
	if !hasIterators() {
		t.Skip("the loops of all tests are bounded on this kernel")
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
