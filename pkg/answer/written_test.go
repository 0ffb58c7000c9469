// SPDX-License-Identifier: Apache-2.0

package answer

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/vnet/domain"
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

// However many names an expression has: addresses are read once, and each name is looked for once.
func TestManyNames(t *testing.T) {
	reads, asked := 0, make(map[string]int)
	d := &domain.Domain{Name: "d", Nodes: []domain.Node{{ID: 1, Name: "h1"}, {ID: 2, Name: "h1", Removed: true}, {ID: 3, Name: "r1"}}}
	owners := &Owners{sync.OnceValues(func() (*owned, error) {
		reads++
		return newOwned(d, map[uint16][]netip.Addr{1: {netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("10.0.0.1")}, 2: {netip.MustParseAddr("fe80::1"), netip.MustParseAddr("10.0.0.2")}}), nil
	})}
	of := func(names []string) ([]string, error) {
		asked[names[0]]++
		return owners.AddressesOf(names)
	}
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "h1 a b%d ", i)
	}
	got, err := WithAddresses(text.String(), of)
	if !strings.HasPrefix(got, "(10.0.0.1 or 10.0.0.2) a b0 (10.0.0.1 ") || err != nil || reads != 1 || len(asked) != 102 || asked["h1"] != 1 || asked["a"] != 1 {
		t.Errorf("%q, %v: read %d times, asked %v", got, err, reads, asked)
	}
	if _, err := WithAddresses("host r1", of); err == nil || err.Error() != `node "r1" owns no address` {
		t.Error(err)
	}
}
