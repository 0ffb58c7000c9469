// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"bytes"
	"testing"
)

// TestIsPlain: each character alone, and beside those that lend to it and carry into it, eight at
// a time or fewer.
func TestIsPlain(t *testing.T) {
	for c := range 256 {
		for _, fill := range []byte{' ', '~', 'a', '\n'} {
			for n := 1; n <= 17; n++ {
				for at := range n {
					b := bytes.Repeat([]byte{fill}, n)
					b[at] = byte(c)
					if got, want := isPlain(b), arePlain(b); got != want {
						t.Fatalf("%q: %v, want %v", b, got, want)
					}
				}
			}
		}
	}
}
