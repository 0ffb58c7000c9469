// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"testing"
	"time"
)

func TestParseCount(t *testing.T) {
	for _, c := range []struct {
		in   string
		want uint32
		ok   bool
	}{
		{"0", 0, true}, {"1048576", 1 << 20, true}, {"1M", 1 << 20, true}, {"64k", 65536, true},
		{"2G", 1 << 31, true}, {"2^20", 1 << 20, true}, {"2^0", 1, true}, {"2^31", 1 << 31, true},
		{"4G", 0, false}, {"2^32", 0, false}, {"3^2", 0, false}, {"2^", 0, false}, {"2^-1", 0, false}, {"", 0, false},
		{"M", 0, false}, {"1MM", 0, false}, {"1T", 0, false}, {"-1", 0, false}, {"1.5M", 0, false},
		{"4294967295", 1<<32 - 1, true}, {"4294967296", 0, false}, {"4294967295G", 0, false},
	} {
		got, err := parseCount(c.in)
		if (err == nil) != c.ok || got != c.want {
			t.Errorf("parseCount(%q) = %d, %v; want %d, ok %v", c.in, got, err, c.want, c.ok)
		}
	}
}

func TestParseSince(t *testing.T) {
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
		got, err := ParseTime("since", c.in, now)
		if (err == nil) != c.ok || !got.Equal(c.want) {
			t.Errorf("parseTime(%q) = %v, %v; want %v, ok %v", c.in, got, err, c.want, c.ok)
		}
	}
}
