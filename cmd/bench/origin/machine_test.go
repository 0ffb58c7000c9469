// SPDX-License-Identifier: Apache-2.0

package origin

import "testing"

func TestModelName(t *testing.T) {
	if got := modelName("processor\t: 0\nmodel name\t: A CPU\nflags\t: x\n"); got != "A CPU" {
		t.Error(got)
	}
}
