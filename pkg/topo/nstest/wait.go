// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"testing"
	"time"
)

// Patience is how long something that must happen may take: the machine may be busy.
const Patience = 30 * time.Second

// WaitFor looks again and again whether f says so; after Patience the test fails.
func WaitFor(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for: %s", Patience, what)
		}
	}
}
