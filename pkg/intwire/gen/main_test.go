// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"testing"
)

// docs/int.md is what the tables say now.
func TestPageIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../../docs/int.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := render(string(page))
	if err != nil {
		t.Fatal(err)
	}
	if want != string(page) {
		t.Error("docs/int.md is out of date (write it with: go generate ./pkg/intwire)")
	}
}
