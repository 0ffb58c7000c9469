// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

// docs/int.md is what the table says now.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/int.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "<!-- reasons -->\n\n"+reasons()+"\n<!-- /reasons -->") {
		t.Error("docs/int.md: section reasons is out of date (write it with: go generate ./pkg/export)")
	}
}
