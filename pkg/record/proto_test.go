// SPDX-License-Identifier: Apache-2.0

package record_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/record"
)

func TestProto(t *testing.T) {
	for n := range 256 {
		name := record.ProtoName(uint8(n))
		if got, ok := record.ParseProto(name); !ok || int(got) != n {
			t.Errorf("protocol %d is called %q, which is %d (%v)", n, name, got, ok)
		}
	}
	for s, want := range map[string]int{"tcp": 6, "udp": 17, "icmp": 1, "6": 6, "253": 253} {
		if got, ok := record.ParseProto(s); !ok || int(got) != want {
			t.Errorf("%q is %d (%v), want %d", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "TCP", "256", "-1", "t"} {
		if got, ok := record.ParseProto(s); ok {
			t.Errorf("%q is taken for protocol %d", s, got)
		}
	}
}
