// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/pkg/telemetry/metrics"
)

// That the disk is full is told once, and that there is room again only when there is: values may fit into what
// is free, while reports do not.
func TestRoomAgain(t *testing.T) {
	store := &memory{info: Info{Ports: []uint16{32766}}, full: unix.ENOSPC, free: 4096}
	c := New(&Translator{}, metrics.New(metrics.DefaultConfig()), store, nil)
	var told []string
	c.Warn = func(text string) { told = append(told, text) }
	if err := c.wrote(store.Add(Packet{})); err != nil {
		t.Fatal(err)
	}
	save := func(want int) {
		t.Helper()
		if err := c.SaveRows(time.Now()); err != nil {
			t.Fatal(err)
		}
		if len(told) != want {
			t.Errorf("told %q, want %d", told, want)
		}
	}
	save(1)
	save(1) // no report has come meanwhile, so no write has failed
	store.full = nil
	save(2)
	if !strings.Contains(told[len(told)-1], "room again") {
		t.Errorf("told %q", told)
	}
}
