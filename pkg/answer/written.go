// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/vnetradar/radar/pkg/filter"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// ParseTime reads what users write for a time: a duration back from now, a time of the day on which now
// is, where now is, as tables print it, or a time of RFC 3339.
func ParseTime(s string, now time.Time) (time.Time, error) {
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
	return time.Time{}, fmt.Errorf("%q: use a duration (5m), a time of today (15:04, 15:04:05) or a time of RFC 3339 (2006-01-02T15:04:05Z)", s)
}

func addressesOf(values []string, of func(node string) ([]netip.Addr, error)) ([]string, error) {
	var list []string
	for _, value := range values {
		name := strings.TrimSpace(value)
		if _, err := netip.ParseAddr(name); err == nil || name == "" || strings.ContainsAny(name, "/:[") {
			list = append(list, value)
			continue
		}
		addrs, err := of(name)
		switch {
		case errors.Is(err, domain.ErrNotAttached):
			list = append(list, name) // it is refused as no address, or the question for the domain
		case err != nil:
			return nil, err
		}
		for _, addr := range addrs {
			list = append(list, addr.String())
		}
	}
	return list, nil
}

// WithAddresses puts the addresses of nodes in the place of their names in an expression; of is AddressesOf. It is asked
// once for each name.
func WithAddresses(text string, of func([]string) ([]string, error)) (string, error) {
	known := make(map[string][]string)
	return filter.WithAddresses(text, func(name string) ([]string, error) {
		if list, ok := known[name]; ok {
			return list, nil
		}
		list, err := of([]string{name})
		if _, none := errors.AsType[*NoSuchNode](err); none {
			list, err = nil, nil
		}
		known[name] = list
		return list, err
	})
}
