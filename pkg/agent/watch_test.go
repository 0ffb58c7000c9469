// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// A change that could not be followed when it was told is followed as soon as it can
// be, though nothing else happens: at a bridge packets leave meanwhile.
func TestWatchTriesAgain(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	n := nstest.New(t, "sw", "a", "u")
	n.Run("sw", "ip", "link", "add", "br0", "type", "bridge")
	for _, name := range []string{"a", "u"} {
		n.Veth(name, "e0", "sw", "p"+name)
	}
	n.Run("sw", "ip", "link", "set", "pa", "master", "br0")
	specs, err := topo.ParseSpecs([]string{n.Spec("a")})
	if err != nil {
		t.Fatal(err)
	}
	name := nstest.Unique()
	o := datapath.DefaultOptions()
	o.Slots = 1 << 12
	t.Cleanup(func() {
		_, err := datapath.Detach(context.Background(), datapath.DetachRequest{Domain: name, NoDrain: true})
		if err != nil && !errors.Is(err, domain.ErrNotAttached) {
			t.Errorf("detach at the end of the test: %v", err)
		}
	})
	if _, err := datapath.Attach(t.Context(), datapath.AttachRequest{Domain: name, Nodes: specs, Options: &o}); err != nil {
		t.Fatal(err)
	}
	w, err := newWatch(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	time.Sleep(2 * saveEvery) // until it has seen all

	file := domain.File(name, "domain.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	n.Run("sw", "ip", "link", "set", "pu", "master", "br0")
	time.Sleep(10 * quietTime) // all that this causes has been told
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := func() bool {
		d, err := domain.Load(name)
		return err == nil && slices.ContainsFunc(d.Ports, func(p domain.Port) bool { return p.Name == "pu" && !p.Removed })
	}
	for deadline := time.Now().Add(5 * saveEvery); !closed(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the new member of the bridge is not closed")
		}
	}
}
