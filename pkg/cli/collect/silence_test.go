// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/cli/kit"
	"github.com/vnetradar/radar/pkg/telemetry/collect"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// TestSilence: where it is only quiet nothing is said; what the kernel drops later is said, once, and
// not where a report has come.
func TestSilence(t *testing.T) {
	n := nstest.New(t, "q")
	spec, err := topo.ParseSpec(n.Spec("q"))
	if err != nil {
		t.Fatal(err)
	}
	err = spec.Do(func() error {
		socket, err := collect.Listen(netip.MustParseAddr("127.0.0.1"), 0)
		if err != nil {
			return err
		}
		defer socket.Close()
		var said bytes.Buffer
		c := &collecting{Kit: &kit.Kit{Stderr: &said}, inputs: []collect.Input{socket}, silence: silence{after: time.Second}}
		info, now := &collect.Info{}, time.Now()
		look := func() string {
			said.Reset()
			now = now.Add(time.Hour)
			c.silence.sayWhenDue(c.Kit, now, info)
			return said.String()
		}
		c.silence.noteDrops(c)
		if got := look(); got != "" {
			t.Errorf("quiet: %s", got)
		}
		conn, err := net.Dial("udp", "127.0.0.1:9")
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("to nobody")); err != nil {
			return err
		}
		info.Counts.Reports = 1
		c.silence.due = now
		if got := look(); got != "" {
			t.Errorf("with a report: %s", got)
		}
		info.Counts.Reports = 0
		c.silence.due = now
		if got := look(); !strings.Contains(got, "UdpNoPorts 1: ") {
			t.Errorf("to nobody: %s", got)
		}
		if got := look(); got != "" {
			t.Errorf("again: %s", got)
		}
		c.silence.noteDrops(c)
		if got := look(); got != "" {
			t.Errorf("quiet since then: %s", got)
		}
		if _, err := conn.Write([]byte("to nobody")); errors.Is(err, syscall.ECONNREFUSED) { // for the one before
			_, err = conn.Write([]byte("to nobody"))
			if err != nil {
				return err
			}
		}
		if got := look(); !strings.Contains(got, "UdpNoPorts 1: ") {
			t.Errorf("after it was quiet: %s", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
