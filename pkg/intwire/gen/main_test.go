// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/int/formats.md is what the tables say now.
func TestPageIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../../docs/int/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range sections {
		if section := fmt.Sprintf("<!-- %s -->\n\n%s\n<!-- /%s -->", name, text(), name); !strings.Contains(string(page), section) {
			t.Errorf("docs/int/formats.md: section %s is out of date (write it with: go generate ./pkg/intwire)", name)
		}
	}
}
