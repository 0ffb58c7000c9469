// SPDX-License-Identifier: Apache-2.0

package nstest

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Patience is how long something that must happen may take: the machine may be busy.
const Patience = 2 * time.Minute

// WaitFor looks again and again whether f says so; after Patience the test fails.
func WaitFor(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain for: %s", Patience, what)
		}
	}
}

// Again calls f until no signal interrupts it. Go's runtime sends itself some, and calls of
// a socket with a timeout do not begin anew by themselves (signal(7)).
func Again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
