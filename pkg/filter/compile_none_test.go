// SPDX-License-Identifier: Apache-2.0

//go:build !cgo || nopcap

package filter

import (
	"errors"
	"testing"
)

func TestNotBuilt(t *testing.T) {
	if _, err := Compile("udp"); !errors.Is(err, ErrNotBuilt) || Available || Library() != "" {
		t.Errorf("%v, available: %v, by %q", err, Available, Library())
	}
}
