// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"maps"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/store/segments"
)

// What was not kept is the most that each recorder says: events of one may be lost.
func TestNotKept(t *testing.T) {
	dir := t.TempDir()
	w, err := segments.Create(dir, segments.Meta{}, segments.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first, second := time.Unix(1_000, 1), time.Unix(2_000, 2)
	for i, e := range []struct {
		begun   time.Time
		packets map[string]uint64
	}{
		{first, map[string]uint64{"full": 3}},
		{first, map[string]uint64{"full": 10, "slow": 1}},
		{first, map[string]uint64{"full": 10, "slow": 1}},
		{second, map[string]uint64{"full": 2}},
	} {
		fields, err := NotKeptOf(e.begun, e.packets)
		if err == nil {
			err = w.AddEvent(time.Unix(3_000+int64(i), 0), EventNotKept, fields)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]uint64{"full": 12, "slow": 1}; !maps.Equal(r.Last.NotKept, want) {
		t.Errorf("%v, want %v", r.Last.NotKept, want)
	}
}
