// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"testing"

	"github.com/vnetradar/radar/cmd/bench/result"
)

// Targets are about benchmarks that there are, and so are the sections of pages.
func TestNames(t *testing.T) {
	sections, err := result.Sections("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Concat(result.Benches(), sections) {
		if !slices.Contains(names(), name) {
			t.Errorf("no benchmark %s", name)
		}
	}
}
