// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/telemetry/generate"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestGenerateLate: a sender that was stopped for a while does not send all of it at once.
func TestGenerateLate(t *testing.T) {
	n := nstest.New(t, "l")
	spec, err := topo.ParseSpec(n.Spec("l"))
	if err != nil {
		t.Fatal(err)
	}
	rate := sendRate(1000)
	g := &generating{paced: true, count: 1000, next: func(n uint64) (generate.Datagram, time.Duration, error) {
		if n == 1 {
			time.Sleep(1200 * time.Millisecond)
		}
		return generate.Datagram{Payload: []byte("x")}, rate.due(n), nil
	}}
	if err := spec.Do(func() error { return g.send(t.Context(), "127.0.0.1:32766") }); err != nil {
		t.Fatal(err)
	}
	// 700 ms of it are not caught up with.
	if g.took < 1650*time.Millisecond {
		t.Errorf("1000 at 1000 a second, 1.2 s late: in %v", g.took)
	}
}
