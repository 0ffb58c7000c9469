// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

// docs/int/export.md is what the table says now.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/int/export.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "<!-- reasons -->\n\n"+reasons()+"\n<!-- /reasons -->") {
		t.Error("docs/int/export.md: section reasons is out of date (write it with: go generate ./pkg/telemetry/export)")
	}
}
