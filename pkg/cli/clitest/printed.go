// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/cli/kit"
)

// Printed is what f prints in a format.
func Printed(t *testing.T, format kit.Format, f func(*kit.Kit) error) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	k := &kit.Kit{Out: bufio.NewWriter(&out), Stdout: &out, Stderr: &errs, Output: format, Location: time.UTC}
	if err := f(k); err != nil {
		t.Fatal(err)
	}
	if err := k.Out.Flush(); err != nil {
		t.Fatal(err)
	}
	if errs.Len() > 0 {
		fmt.Fprintf(&out, "--- standard error\n%s", errs.String())
	}
	return out.Bytes()
}
