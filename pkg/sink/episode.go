// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"slices"
	"time"
)

// Limits of what is said of failures. An episode ends when nothing has failed for calmTime: of a
// full disk that has room from time to time each failure would else be news.
const (
	calmTime  = time.Minute
	mostWords = 4 // different messages of one episode; a server may choose its words
)

// episode is failures that follow each other.
type episode struct {
	last time.Time
	said []string
}

// news reports whether a failure at that time is to be said: it begins an episode, or is another
// one, of which there are not too many yet.
func (e *episode) news(now time.Time, text string) bool {
	if now.Sub(e.last) > calmTime {
		e.said = nil
	}
	e.last = now
	if len(e.said) >= mostWords || slices.Contains(e.said, text) {
		return false
	}
	e.said = append(e.said, text)
	return true
}
