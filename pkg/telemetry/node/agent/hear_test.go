// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/loader"
	"github.com/vnetradar/radar/pkg/telemetry/node"
)

// A sink's interface that is made anew has its programs as soon as the kernel tells of it: the agent does not wait
// until it looks by itself, which here it does once, as it begins.
func TestHeard(t *testing.T) {
	n := nstest.New(t, "r", "h")
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	n.Veth("r", "e1", "h", "e0")
	var st unix.Stat_t
	if err := unix.Stat(n.Path("r"), &st); err != nil {
		t.Fatal(err)
	}
	name := nstest.Unique()
	nstest.Cleanup(t, func() {
		if _, err := node.Detach(context.Background(), node.DetachRequest{Domain: name}); err != nil {
			t.Error(err)
		}
	})
	place := node.Place{Name: "r", Spec: "netns:" + n.Name("r"), Path: n.Path("r"), Inum: uint32(st.Ino)}
	_, err := node.Attach(t.Context(), node.Request{
		Domain: name, Targets: []node.Target{{Place: place, Port: "e1", Roles: node.Source | node.Sink}}, Hook: loader.HookAuto,
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open(name, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		t.Fatal(err)
	}
	a.looks = time.Hour
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, func() {}) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		a.Close()
	})
	nstest.WaitFor(t, "the first look", func() bool { s, err := ReadState(name); return err == nil && s.PID != 0 })
	before := n.Index("r", "e1")
	for range 3 {
		n.Run("r", "ip", "link", "del", "e1")
		n.Veth("r", "e1", "h", "e0")
		if now := n.Index("r", "e1"); now == before {
			t.Fatalf("e1 is interface %d as before", now)
		}
		nstest.WaitFor(t, "the programs at the new interface", func() bool {
			d, err := node.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			stands, err := d.Stands(&d.Nodes[0])
			return err == nil && stands
		})
		before = n.Index("r", "e1")
	}
}
