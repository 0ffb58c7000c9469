// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
	"github.com/vnetradar/radar/pkg/topo/nstest"
)

// When Finish returns, the kernel has freed the maps already: nothing of ours is
// open while it waits for that.
func TestFinishLeavesNothing(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	n := nstest.New(t, "a")
	n.Veth("a", "e0", "a", "e1")
	name := nstest.Unique()
	specs, err := topo.ParseSpecs([]string{n.Spec("a")})
	if err != nil {
		t.Fatal(err)
	}
	o := datapath.DefaultOptions()
	o.Slots = 1 << 12
	nstest.Cleanup(t, func() {
		_, err := datapath.Detach(context.Background(), datapath.DetachRequest{Domain: name, NoDrain: true})
		if err != nil && !errors.Is(err, domain.ErrNotAttached) {
			t.Errorf("detach at the end of the test: %v", err)
		}
	})
	if _, err := datapath.Attach(t.Context(), datapath.AttachRequest{Domain: name, Nodes: specs, Options: &o}); err != nil {
		t.Fatal(err)
	}
	maps := pinnedMaps(t, name)
	a, err := Open(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if end, err := a.Run(ctx, cancel); end != Interrupted || err != nil {
		t.Errorf("Run: %s, %v", end, err)
	}
	summary, err := a.Finish(t.Context(), FinishOptions{NoDrain: true})
	for pin, id := range maps {
		// Asking for the next number takes no reference to the map.
		if next, err := ebpf.MapGetNextID(id - 1); err == nil && next == id {
			t.Errorf("map %s is still there", pin)
		}
	}
	if err != nil || summary.Nodes != 1 || summary.Ports != 2 || len(summary.Warnings) > 0 {
		t.Errorf("Finish: %+v, %v", summary, err)
	}
	if _, err := os.Stat(domain.Dir(name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("state directory after Finish: %v", err)
	}
}

// pinnedMaps returns the numbers of the domain's maps by the name of the pin.
func pinnedMaps(t *testing.T, name string) map[string]ebpf.MapID {
	t.Helper()
	pins, err := filepath.Glob(domain.PinDir(name) + "/*")
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]ebpf.MapID)
	for _, pin := range pins {
		if base := filepath.Base(pin); strings.HasPrefix(base, "link-") || strings.HasPrefix(base, "prog-") {
			continue
		}
		m, err := ebpf.LoadPinnedMap(pin, nil)
		if err != nil {
			t.Fatal(err)
		}
		info, err := m.Info()
		m.Close()
		if err != nil {
			t.Fatal(err)
		}
		ids[filepath.Base(pin)], _ = info.ID()
	}
	if len(ids) == 0 {
		t.Fatalf("no maps in %s", domain.PinDir(name))
	}
	return ids
}
