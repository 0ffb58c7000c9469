// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/record"
)

// TestClock: times of the same second, of later and of earlier ones, before 1970 too, as package
// time writes them.
func TestClock(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	clock, utc := record.NewClock(time.FixedZone("", 5*3600+1800), "15:04:05"), record.UTCClock()
	at := time.Date(2026, 3, 2, 10, 15, 4, 0, time.UTC).UnixNano()
	for range 20_000 {
		switch at += rng.Int64N(3e8); rng.IntN(100) {
		case 0:
			at = rng.Int64N(4e18) - 2e18
		case 1:
			at = rng.Int64N(10) * -1e9
		}
		when := time.Unix(0, at)
		if got, want := string(clock.Append(nil, at, 6)), when.In(time.FixedZone("", 5*3600+1800)).Format("15:04:05.000000"); got != want {
			t.Fatalf("%d ns: %s, want %s", at, got, want)
		}
		want := when.UTC().Format("2006-01-02T15:04:05.000000000Z")
		if got := string(record.AppendTime(nil, &utc, at)); got != want || record.TimeString(at) != want {
			t.Fatalf("%d ns: %s and %s, want %s", at, got, record.TimeString(at), want)
		}
	}
}
