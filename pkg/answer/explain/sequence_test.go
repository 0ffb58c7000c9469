// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

// TestClosedWindow: a window that is closed is 0 bytes, and what is no acknowledgement has none.
func TestClosedWindow(t *testing.T) {
	var w wire
	w.closing(5)
	slices.SortStableFunc(w.list, func(x, y *record.Record) int { return int(x.TNs - y.TNs) })
	a := New(flow)
	a.Trace()
	for _, r := range w.list {
		a.Add(r)
	}
	ans, ok := a.Finish()
	if !ok {
		t.Fatal("no record is of the flow")
	}
	closed, open := 0, 0
	for _, m := range ans.Sequence.Moments {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case (m.Kind == GotAck) != strings.Contains(string(text), `"window":`):
			t.Errorf("%s", text)
		case strings.Contains(string(text), `"window":0}`):
			closed++
		case m.Kind == GotAck:
			open++
		}
	}
	if closed != 30 || open < 30 {
		t.Errorf("%d closed windows, %d open ones", closed, open)
	}
}
