// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/vnetradar/radar/pkg/host"
	"github.com/vnetradar/radar/pkg/system/resident"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// TestCountedDamaged: what nodes had counted is made anew if it cannot be read, and that is said once. It is known then
// only of nodes that come later.
func TestCountedDamaged(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	own := host.OwnNetns()
	d := &domain.Domain{Name: "damaged", Epoch: 7, Nodes: []domain.Node{{ID: 1, Name: "h1", Path: own.Path, Inum: own.Inum}}}
	if err := os.MkdirAll(domain.Dir(d.Name), 0o700); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	note := func() {
		t.Helper()
		if err := noteCounted(d, false, slog.New(slog.NewTextHandler(&said, nil))); err != nil {
			t.Fatal(err)
		}
	}
	since := func(node int) bool {
		t.Helper()
		counted, err := domain.LoadCounted(d)
		if err != nil {
			t.Fatal(err)
		}
		_, known := counted.Since(&d.Nodes[node], map[string]uint64{"a": 1})
		return known
	}
	note()
	if !since(0) || said.Len() > 0 {
		t.Errorf("nothing is known of a node that was noted; log: %s", said.String())
	}
	if err := os.WriteFile(domain.File(d.Name, "counted.json"), []byte(`{"epoch":7,"nodes":{"1":{"inum`), 0o600); err != nil {
		t.Fatal(err)
	}
	note()
	note()
	if n := strings.Count(said.String(), "noted anew"); since(0) || n != 1 {
		t.Errorf("since attach: %v; it is said %d times: %s", since(0), n, said.String())
	}
	d.Nodes = append(d.Nodes, domain.Node{ID: 2, Name: "h2", Path: own.Path, Inum: own.Inum})
	note()
	if since(0) || !since(1) {
		t.Errorf("since attach: %v, of a later node: %v", since(0), since(1))
	}
}

// TestCountedLate: what could not be noted as a node was attached is noted later, and is not what it had counted then.
func TestCountedLate(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	own := host.OwnNetns()
	d := &domain.Domain{Name: "late", Epoch: 7, Nodes: []domain.Node{{ID: 1, Name: "h1", Path: own.Path, Inum: own.Inum}}}
	log := slog.New(slog.DiscardHandler)
	w := &watch{handle: &datapath.Handle{Domain: d}, log: log, once: resident.Logger{Log: log}}
	if w.noteCounted(); !w.uncounted {
		t.Fatal("it was noted where there is no directory")
	}
	if err := os.MkdirAll(domain.Dir(d.Name), 0o700); err != nil {
		t.Fatal(err)
	}
	if w.noteCounted(); w.uncounted {
		t.Fatal("it was not noted")
	}
	counted, err := domain.LoadCounted(d)
	if err != nil {
		t.Fatal(err)
	}
	if of, is := counted.Nodes[1]; !is || !of.Late {
		t.Errorf("noted %v: %+v", is, of)
	}
	if _, known := counted.Since(&d.Nodes[0], nil); known {
		t.Error("what it had counted as it was attached is told to be known")
	}
}
