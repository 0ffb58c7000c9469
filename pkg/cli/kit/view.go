// SPDX-License-Identifier: Apache-2.0

package kit

import "time"

// View is one of the answers that follow each other with -f.
type View struct {
	Time string // RFC 3339
	// From and End are the whole seconds since the last answer, one at least; Unix time.
	From, End int64
	CSV       *CSVWriter      // of all answers: it prints the title once
	Said      map[string]bool // notes, by their format or key
}

// Round begins an answer: what was asked for last time ended with the second in which that was.
func (v *View) Round(now time.Time) {
	v.From, v.End = v.End, now.Unix()
	if v.From == 0 || v.From >= v.End {
		v.From = v.End - 1
	}
}
