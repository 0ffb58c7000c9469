// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"
	"time"
)

// printed is what f prints in a format.
func printed(t *testing.T, format outputFormat, f func(*app) error) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{out: bufio.NewWriter(&out), stdout: &out, stderr: &errs, output: format, location: time.UTC}
	if err := f(a); err != nil {
		t.Fatal(err)
	}
	if err := a.out.Flush(); err != nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		fmt.Fprintf(&out, "--- standard error\n%s", errs.String())
	}
	return out.Bytes()
}
