// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/telemetry/export"
)

// BenchmarkEncode is one packet with five hops.
func BenchmarkEncode(b *testing.B) {
	for _, form := range []struct {
		name   string
		perHop bool
	}{{"stack", false}, {"each", true}} {
		b.Run(form.name, func(b *testing.B) {
			e := encoder(b, chain(3), export.TR20, export.Mark{}, form.perHop)
			r := delivered(3)
			b.ReportAllocs()
			for b.Loop() {
				e.Encode(&r, func([]byte) {})
			}
		})
	}
}
