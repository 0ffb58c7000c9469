// SPDX-License-Identifier: Apache-2.0

package domain

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vnetradar/radar/pkg/system"
)

// A state directory that cannot be made is an error, not a reason to wait.
func TestLockWithoutDirectory(t *testing.T) {
	for _, root := range []string{"/proc/none", "/dev/null"} {
		t.Setenv("RADAR_STATE_DIR", root)
		done := make(chan error, 1)
		go func() {
			_, err := Lock("rdrtest")
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "RADAR_STATE_DIR") {
				t.Errorf("%s: %v", root, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: Lock does not return", root)
		}
	}
}

// For a description that makes no sense, or is another version's, the error says what to do.
func TestLoadWhatCannotBeUsed(t *testing.T) {
	t.Setenv("RADAR_STATE_DIR", t.TempDir())
	if err := os.MkdirAll(Dir("rdrtest"), 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]struct {
		is   error
		says string
	}{
		`{`:             {ErrDamaged, "«detach ‹domain› rdrtest»"},
		`{"version":1}`: {ErrOtherVersion, "«detach ‹domain› rdrtest»"},
	} {
		if err := os.WriteFile(File("rdrtest", Description), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load("rdrtest")
		if err == nil || want.is != nil && !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.says) || errors.Is(err, ErrNotAttached) {
			t.Errorf("%s: %v, want %q", text, err, want.says)
		}
	}
	if err := os.Remove(File("rdrtest", Description)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load("rdrtest"); !errors.Is(err, ErrNotAttached) || errors.Is(err, ErrHalfAttached) {
		t.Errorf("no description: %v", err)
	}
}

// Virtual machines can be named with all nodes, and are not all alone.
func TestIsWhole(t *testing.T) {
	d := &Domain{
		Nodes: []Node{{ID: 1, Name: "a"}, {ID: 2, Name: "host", Auto: true}, {ID: 3, Name: "gone", Removed: true}},
		VMs:   []VM{{ID: 4, Name: "vm"}, {ID: 5, Name: "was", Removed: true}},
	}
	for _, c := range []struct {
		names []string
		all   bool
	}{
		{[]string{"a"}, true}, {[]string{"a", "vm"}, true}, {[]string{"vm"}, false},
		{[]string{"a", "was"}, false}, {[]string{"a", "host"}, false}, {[]string{"a", "gone"}, false},
	} {
		if got := d.IsWhole(c.names); got != c.all {
			t.Errorf("all nodes with %q: %v", c.names, got)
		}
	}
}

// described is a description in which nothing is wrong.
func described() *Domain {
	return &Domain{
		Version: Version, Name: "rdrtest",
		Options: Options{Slots: MinSlots, SlotBytes: minSlotBytes, Keys: MinKeys, Timeout: time.Second, Hook: "tcx"},
		Nodes:   []Node{{ID: 1, Name: "a"}, {ID: 2, Name: "b", Removed: true}, {ID: 4, Name: "host", Auto: true}},
		VMs:     []VM{{ID: 3, Name: "vm"}},
		Ports: []Port{
			{ID: 1, Node: 1, Name: "eth0", Ifindex: 2, Role: Internal, Peer: 3},
			{ID: 2, Node: 2, Name: "eth0", Ifindex: 2, Role: Edge, Peer: -1, Removed: true},
			{ID: 3, Node: 4, Name: "br0", Ifindex: 7, Role: Internal, Peer: 1, Place: Bridge},
			{ID: 9, Node: 1, Name: "tap0", Ifindex: 3, Role: Internal, Peer: -1, VM: 3},
		},
	}
}

// damages are changes after which a description must not be relied on.
var damages = map[string]func(d *Domain){
	"another name":            func(d *Domain) { d.Name = "other" },
	"no slots":                func(d *Domain) { d.Options.Slots = 0 },
	"slots, no power of two":  func(d *Domain) { d.Options.Slots++ },
	"too many slots":          func(d *Domain) { d.Options.Slots = 1 << 31 },
	"slots without bytes":     func(d *Domain) { d.Options.SlotBytes = 0 },
	"half a line":             func(d *Domain) { d.Options.SlotBytes += 32 },
	"no keys":                 func(d *Domain) { d.Options.Keys = 0 },
	"no timeout":              func(d *Domain) { d.Options.Timeout = 0 },
	"a timeout of years":      func(d *Domain) { d.Options.Timeout = 1 << 62 },
	"a negative age":          func(d *Domain) { d.Options.MinAge = -1 },
	"a negative lease":        func(d *Domain) { d.Options.Lease = -1 },
	"no hook":                 func(d *Domain) { d.Options.Hook = "" },
	"node 0":                  func(d *Domain) { d.Nodes[0].ID = 0 },
	"node 4096":               func(d *Domain) { d.Nodes[0].ID = MaxNodes },
	"a node twice":            func(d *Domain) { d.Nodes[1].ID = 1 },
	"a machine's number":      func(d *Domain) { d.VMs[0].ID = 4 },
	"port 0":                  func(d *Domain) { d.Ports[0].ID = 0 },
	"port 16384":              func(d *Domain) { d.Ports[1].ID = MaxPorts },
	"a port twice":            func(d *Domain) { d.Ports[1].ID = 1 },
	"a port of no node":       func(d *Domain) { d.Ports[0].Node = 77 },
	"no nodes":                func(d *Domain) { d.Nodes = nil },
	"a negative interface":    func(d *Domain) { d.Ports[0].Ifindex = -1 },
	"no role":                 func(d *Domain) { d.Ports[0].Role = "" },
	"an odd place":            func(d *Domain) { d.Ports[0].Place = "cellar" },
	"no such peer":            func(d *Domain) { d.Ports[0].Peer = 8 },
	"beside no port":          func(d *Domain) { d.Ports[0].Beside = []uint16{1, 8} },
	"a peer beyond 16 bits":   func(d *Domain) { d.Ports[0].Peer = 1<<16 + 1 },
	"a negative peer":         func(d *Domain) { d.Ports[0].Peer = -2 },
	"no such machine":         func(d *Domain) { d.Ports[3].VM = 1 },
	"member 0":                func(d *Domain) { d.Members = []Member{{Node: d.Ports[0].Node}} },
	"member 16384":            func(d *Domain) { d.Members = []Member{{ID: MaxPorts, Node: d.Ports[0].Node}} },
	"a port that is a member": func(d *Domain) { d.Members = []Member{{ID: d.Ports[0].ID, Node: d.Ports[0].Node}} },
	"a member twice": func(d *Domain) {
		d.Members = []Member{{ID: 900, Node: d.Ports[0].Node}, {ID: 900, Node: d.Ports[0].Node}}
	},
	"a member of no node": func(d *Domain) { d.Members = []Member{{ID: 900, Node: 77}} },
	"a member below zero": func(d *Domain) { d.Members = []Member{{ID: 900, Node: d.Ports[0].Node, Ifindex: -1}} },
}

// TestDamaged: a description that contradicts itself is damaged, and says so.
func TestDamaged(t *testing.T) {
	if _, err := parse(text(t, described())); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range damages {
		d := described()
		spoil(d)
		if got, err := parse(text(t, d)); got != nil || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Of another version's only the nodes are relied on, and that ports are theirs.
	d := described()
	d.Version, d.Ports[0].Node = Version+1, 77
	if got, err := parse(text(t, d)); !errors.Is(err, ErrOtherVersion) || len(got.Ports) != len(d.Ports)-1 {
		t.Errorf("another version: %v, %v", got, err)
	}
}

func parse(b []byte) (*Domain, error) {
	return usable(system.Decode(Kind, "rdrtest", b, (*Domain).check))
}

func text(t *testing.T, d *Domain) []byte {
	t.Helper()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzParse: what is accepted has no number without what it names.
func FuzzParse(f *testing.F) {
	seed := described()
	for _, spoil := range damages {
		d := described()
		spoil(d)
		b, err := json.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	seed.Version++
	b, err := json.Marshal(seed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := parse(b)
		if d == nil {
			if err == nil {
				t.Fatal("neither a description nor an error")
			}
			return
		}
		for i := range d.Ports {
			p := &d.Ports[i]
			if d.NodeByID(p.Node) == nil {
				t.Fatalf("port %d has no node", p.ID)
			}
			if err == nil && (p.Peer > 0 && d.PortByID(uint16(p.Peer)) == nil || p.VM != 0 && d.VMByID(p.VM) == nil || d.PortByID(p.ID) != p) {
				t.Fatalf("port %+v", p)
			}
		}
		if err == nil && (d.Options.Slots == 0 || d.Options.SlotBytes == 0 || d.Options.Timeout <= 0) {
			t.Fatalf("options %+v", d.Options)
		}
	})
}
