// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/vnetradar/radar/lab/test/need"
)

// A command that is built with another object has that one in it, and not the tree's own.
func TestNewRadarOf(t *testing.T) {
	if need.IsCheck(t) {
		t.Skip("links the command: make test runs it")
	}
	text, err := os.ReadFile("../../pkg/bpfobj/tc_x86_bpfel.o")
	if err != nil {
		t.Fatal(err)
	}
	other := append(bytes.Clone(text), "another object"...)
	file := filepath.Join(t.TempDir(), "other.o")
	if err := os.WriteFile(file, other, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := newRadarOf(t.Context(), namedObject{name: "other", file: file})
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	command, err := os.ReadFile(r.bin)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(command, text); n != 1 || !bytes.Contains(command, other) {
		t.Errorf("the object is in it %d times, or it is not the other one", n)
	}
	if _, err := newRadarOf(t.Context(), namedObject{name: "none", file: file + ".nosuch"}); err == nil {
		t.Error("a file that is not there is built in")
	}
}
