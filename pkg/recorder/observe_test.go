// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/store/segments"
)

// All is written again where what was written may be gone, and in each hour.
func TestIsLost(t *testing.T) {
	whole := time.Date(2026, 11, 26, 11, 20, 0, 0, time.UTC)
	w := &watched{whole: whole, lost: 3}
	for what, c := range map[string]struct {
		after time.Duration
		stats segments.Stats
		want  bool
	}{
		"nothing has happened":         {39 * time.Minute, segments.Stats{EventsNotKept: 3}, false},
		"an hour begins":               {40 * time.Minute, segments.Stats{EventsNotKept: 3}, true},
		"events were lost":             {time.Second, segments.Stats{EventsNotKept: 4}, true},
		"older events were removed":    {time.Second, segments.Stats{EventsNotKept: 3, EventsRemoved: whole.UnixNano() - 1}, false},
		"what was written was removed": {time.Second, segments.Stats{EventsNotKept: 3, EventsRemoved: whole.UnixNano()}, true},
		"what came later was removed":  {time.Second, segments.Stats{EventsNotKept: 3, EventsRemoved: whole.UnixNano() + 5}, true},
	} {
		if got := w.isLost(whole.Add(c.after), &c.stats); got != c.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	if !new(watched).isLost(whole, new(segments.Stats)) {
		t.Error("nothing was written")
	}
}
