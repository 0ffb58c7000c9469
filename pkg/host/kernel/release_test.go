// SPDX-License-Identifier: Apache-2.0

package kernel_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/host/kernel"
)

func TestOlder(t *testing.T) {
	for release, want := range map[string]bool{
		"5.9.16": true, "5.10.0-28-amd64": false, "4.19.0": true, "6.1.0": false, "10.0": false, "odd": false,
	} {
		if got := kernel.Older(release, 5, 10); got != want {
			t.Errorf("%s is older than 5.10: %v", release, got)
		}
	}
}
