// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"fmt"
	"testing"
	"time"
)

// TestEpisode: failures that follow each other are said once, and again after a calm.
func TestEpisode(t *testing.T) {
	t.Parallel()
	var e episode
	now := time.Unix(1_000_000, 0)
	said := 0
	for range 1000 {
		now = now.Add(calmTime)
		if e.news(now, "full") {
			said++
		}
	}
	for i := range 1000 {
		if e.news(now, fmt.Sprint("words ", i)) {
			said++
		}
	}
	if said != mostWords {
		t.Errorf("said %d times", said)
	}
	if now = now.Add(calmTime + 1); !e.news(now, "full") || e.news(now, "full") {
		t.Error("after a calm it is news, once")
	}
}
