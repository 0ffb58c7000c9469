// SPDX-License-Identifier: Apache-2.0

package kit_test

import (
	"bytes"
	"testing"

	"github.com/vnetradar/radar/pkg/answer"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
)

// Answers say how many packets were not measured, and what to do about it where the name of the
// reason does not tell.
func TestNotMeasuredNotes(t *testing.T) {
	counter := func(name string, n uint64) datapath.Counter {
		return datapath.Counter{Name: "not_measured_" + name, Group: datapath.GroupNotMeasured, Value: n}
	}
	for name, c := range map[string]struct {
		counters []datapath.Counter
		want     string
	}{
		"none":  {[]datapath.Counter{counter("key_in_flight", 0), counter("watch", 5)}, ""},
		"other": {[]datapath.Counter{counter("no_slot", 1)}, "radar: 1 packet was not measured (no_slot 1): radar status -o wide\n"},
		"equal": {[]datapath.Counter{counter("no_slot", 3), counter("key_in_flight", 2150)},
			"radar: 2153 packets were not measured (no_slot 3, key_in_flight 2150): radar status -o wide\n" +
				"radar: key_in_flight: with DF clear (or a TTL below 8) a packet is not measured while an equal one is under way (addresses, ports, IP ID, first bytes of the payload): set DF, or give each packet an IP ID or a payload of its own\n"},
	} {
		var out bytes.Buffer
		kit.New(nil, nil, &out).Note(answer.NotMeasuredNotes(c.counters))
		if out.String() != c.want {
			t.Errorf("%s: it said\n%s, want\n%s", name, out.String(), c.want)
		}
	}
}
