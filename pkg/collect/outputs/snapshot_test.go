// SPDX-License-Identifier: Apache-2.0

package outputs_test

import (
	"testing"

	"github.com/vnetradar/radar/pkg/api"
	"github.com/vnetradar/radar/pkg/collect/outputs"
	"github.com/vnetradar/radar/pkg/collect/outputs/outputstest"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// TestSnapshotOfServer: a server of values lets go of snapshots, which it does not need.
func TestSnapshotOfServer(t *testing.T) {
	t.Parallel()
	var l outputstest.Log
	server, err := api.ListenReports("0", nil, outputstest.OddName, fault.Face{}, l.Logger())
	if err != nil {
		t.Fatal(err)
	}
	fan := &outputs.Fanout{Grace: nstest.Patience, Unwind: nstest.Patience}
	fan.Add(server)
	source := outputstest.New(fan.Event)
	fan.Start(source, 0)
	t.Cleanup(fan.Close)
	source.Feed(5)
	for range 3 {
		fan.Snapshot()
		nstest.WaitFor(t, "the server to have a snapshot", func() bool { return !fan.Waits() })
		fan.Each(func(name string, n *outputs.Tally) {
			if n := n.ShedValues.Load(); n > 0 {
				t.Errorf("%s: %d values shed", name, n)
			}
		})
	}
}
