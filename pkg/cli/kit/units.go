// SPDX-License-Identifier: Apache-2.0

package kit

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count is a flag value of packets or entries: 1048576, 1M, 2^20.
type Count uint32

func (c *Count) String() string { return strconv.FormatUint(uint64(*c), 10) }

// Type names the value in help texts.
func (c *Count) Type() string { return "count" }

// Set parses the value.
func (c *Count) Set(s string) error {
	v, err := parseCount(s)
	if err != nil {
		return err
	}
	*c = Count(v)
	return nil
}

// parseCount reads a number, a number with K, M or G (powers of 1024), or a
// power: 1048576, 1M, 2^20.
func parseCount(s string) (uint32, error) {
	bad := fmt.Errorf("%q is no count: use a number such as 1048576, 1M or 2^20", s)
	if base, exp, ok := strings.Cut(s, "^"); ok {
		e, err := strconv.ParseUint(exp, 10, 6)
		if base != "2" || err != nil {
			return 0, bad
		}
		if e > 31 {
			return 0, fmt.Errorf("%q is too large", s)
		}
		return 1 << e, nil
	}
	digits := strings.TrimRight(s, "kKmMgG")
	factor := uint64(1)
	switch strings.ToUpper(s[len(digits):]) {
	case "":
	case "K":
		factor = 1 << 10
	case "M":
		factor = 1 << 20
	case "G":
		factor = 1 << 30
	default:
		return 0, bad
	}
	v, err := strconv.ParseUint(digits, 10, 32)
	if err != nil {
		return 0, bad
	}
	if v*factor > math.MaxUint32 {
		return 0, fmt.Errorf("%q is too large", s)
	}
	return uint32(v * factor), nil
}

// ParseTime reads --since, or what flag names: a duration back from now, a time of the day on which now
// is, where now is, as tables print it, or a time of RFC 3339.
func ParseTime(flag, s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} { // fractions of a second, too
		if t, err := time.Parse(layout, s); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("--%s %q: use a duration (5m), a time of today (15:04, 15:04:05) or a time of RFC 3339 (2006-01-02T15:04:05Z)", flag, s)
}
