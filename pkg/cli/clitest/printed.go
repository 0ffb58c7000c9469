// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
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

// Marked is a text of a library, which names a setting and a command (package fault).
const Marked = "see «check», or use fewer ‹slots›"

// WantRendered fails the test unless print writes Marked as users of the command line write it, in
// every format.
func WantRendered(t *testing.T, print func(*kit.Kit) error) {
	t.Helper()
	const want = "see radar check, or use fewer --slots"
	for _, format := range []kit.Format{kit.FormatTable, kit.FormatWide, kit.FormatJSON} {
		if text := string(Printed(t, format, print)); strings.ContainsAny(text, "‹›«»") || !strings.Contains(text, want) {
			t.Errorf("%s: no %q in %s", format, want, text)
		}
	}
}
