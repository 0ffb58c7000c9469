// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		in   string
		want time.Time
		ok   bool
	}{
		{"5m", now.Add(-5 * time.Minute), true},
		{"0s", now, true},
		{"2026-03-02T09:00:00Z", now.Add(-time.Hour), true},
		{"2026-03-02T11:00:00.5+02:00", now.Add(-time.Hour + 500*time.Millisecond), true},
		{"09:15", now.Add(-45 * time.Minute), true},
		{"09:15:30", now.Add(-45*time.Minute + 30*time.Second), true},
		{"09:15:30.25", now.Add(-45*time.Minute + 30*time.Second + 250*time.Millisecond), true},
		{"9", time.Time{}, false}, {"25:00", time.Time{}, false},
		{"-5m", time.Time{}, false}, {"5", time.Time{}, false}, {"yesterday", time.Time{}, false}, {"", time.Time{}, false},
	} {
		got, err := ParseTime(c.in, now)
		if (err == nil) != c.ok || !got.Equal(c.want) {
			t.Errorf("parseTime(%q) = %v, %v; want %v, ok %v", c.in, got, err, c.want, c.ok)
		}
	}
}
