// SPDX-License-Identifier: Apache-2.0

package kit

import "fmt"

// View is one of the answers that follow each other with -f.
type View struct {
	Time string          // RFC 3339
	CSV  *CSVWriter      // of all answers: it prints the title once
	Said map[string]bool // notes, by their format or key
}

// Notef says something about an answer on standard error, with -f only once.
func (k *Kit) Notef(format string, args ...any) {
	if k.View.again(format) {
		return
	}
	fmt.Fprintf(k.Stderr, "radar: "+format+"\n", args...)
}

// again reports whether a note was said before, and remembers it.
func (v *View) again(key string) bool {
	if v == nil || v.Said[key] {
		return v != nil
	}
	v.Said[key] = true
	return false
}
