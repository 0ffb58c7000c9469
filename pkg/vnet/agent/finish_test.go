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
	"time"

	"github.com/cilium/ebpf"

	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// When Finish returns, the kernel has freed the maps already: nothing of ours is
// open while it waits for that. It does not wait for long: a kernel that has other
// things to do may be later, but not because of us. That nothing is open is seen only if
// this test gets a CPU while Finish waits: it may try several times.
func TestFinishLeavesNothing(t *testing.T) {
	for try := 1; ; try++ {
		left := finishLeaves(t)
		if left == nil {
			return
		}
		if try == 5 {
			t.Fatalf("maps %v are still there", left)
		}
		t.Logf("maps %v were still there, and nobody saw that nothing was open: once more", left)
	}
}

// finishLeaves returns the maps that are there when Finish has returned, unless nothing of
// ours was seen to be open any more before that.
func finishLeaves(t *testing.T) (early []string) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	n := nstest.New(t, "a")
	n.Veth("a", "e0", "a", "e1")
	specs, err := topo.ParseSpecs([]string{n.Spec("a")})
	if err != nil {
		t.Fatal(err)
	}
	o := program.DefaultOptions()
	o.Slots = 1 << 12
	name := attach(t, o, specs)
	maps := pinnedMaps(t, name)
	a, err := Open(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if end, err := a.Run(ctx, cancel); end != Interrupted || err != nil {
		t.Errorf("Run: %s, %v", end, err)
	}
	finished, letGo := make(chan struct{}), make(chan bool)
	go func() {
		for {
			none := openObjects(t) == ""
			select {
			case <-finished: // what was let go of only then does not count
				letGo <- false
				return
			default:
			}
			if none {
				letGo <- true
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	summary, err := a.Finish(t.Context(), FinishOptions{NoDrain: true})
	left := leftMaps(maps)
	close(finished)
	if !<-letGo {
		early = left
	}
	for end := time.Now().Add(nstest.Patience); left != nil; left = leftMaps(maps) {
		if time.Sleep(10 * time.Millisecond); time.Now().After(end) {
			t.Fatalf("maps %v stay; open: %s", left, openObjects(t))
		}
	}
	if err != nil || summary.Nodes != 1 || summary.Ports != 2 || len(summary.Warnings) > 0 {
		t.Errorf("Finish: %+v, %v", summary, err)
	}
	if _, err := os.Stat(domain.Dir(name)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("state directory after Finish: %v", err)
	}
	return early
}

// leftMaps returns those that the kernel still has.
func leftMaps(maps map[string]ebpf.MapID) (left []string) {
	for pin, id := range maps {
		// Asking for the next number takes no reference to the map.
		if next, err := ebpf.MapGetNextID(id - 1); err == nil && next == id {
			left = append(left, pin)
		}
	}
	return left
}

// openObjects names a BPF object that this process has open or mapped.
func openObjects(t *testing.T) string {
	files, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		if name, err := os.Readlink(file); err == nil && strings.Contains(name, "bpf") {
			return file + " " + name
		}
	}
	mapped, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(mapped)) {
		if strings.Contains(line, "bpf-map") || strings.Contains(line, "/sys/fs/bpf") {
			return line
		}
	}
	return ""
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
