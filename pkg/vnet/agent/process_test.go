// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/child"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system/resident"
)

// started is a shell that has run a script and sleeps.
func started(t *testing.T, script string) Process {
	t.Helper()
	p, err := host.Running(child.Shell(t, script))
	if err != nil {
		t.Fatal(err)
	}
	return Process{resident.Process{Process: p}}
}

func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("ends by itself", func(t *testing.T) {
		p := started(t, "true")
		if err := p.Stop(context.Background(), nstest.Patience); err != nil || p.Alive() {
			t.Errorf("Stop: %v, alive %v", err, p.Alive())
		}
	})
	t.Run("deaf", func(t *testing.T) {
		p := started(t, "trap '' USR2")
		const patience = 2 * time.Second
		begin := time.Now()
		err := p.Stop(context.Background(), patience)
		if time.Since(begin) < patience {
			t.Error("killed without patience")
		}
		if err != nil { // Stop has the same patience with its end, once it is killed
			t.Logf("Stop: %v", err)
			nstest.WaitFor(t, "the end of a process that was killed", func() bool { return !p.Alive() })
		}
		if p.Alive() {
			t.Error("it lives on")
		}
	})
}
