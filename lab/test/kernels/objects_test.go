// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

// kernelObjects are the programs and maps of one domain, by id.
type kernelObjects struct {
	progs map[ebpf.ProgramID]string
	maps  map[ebpf.MapID]string
}

// loadedBy finds a domain's maps by their pins, and its programs by their maps.
func loadedBy(t *testing.T, name string) *kernelObjects {
	t.Helper()
	k := &kernelObjects{progs: make(map[ebpf.ProgramID]string), maps: make(map[ebpf.MapID]string)}
	pins, err := os.ReadDir(domain.PinDir(name))
	if err != nil {
		t.Fatal(err)
	}
	for _, pin := range pins {
		m, err := ebpf.LoadPinnedMap(filepath.Join(domain.PinDir(name), pin.Name()), nil)
		if err != nil {
			continue // a link
		}
		if info, err := m.Info(); err == nil {
			if id, ok := info.ID(); ok {
				k.maps[id] = info.Name
			}
		}
		m.Close()
	}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		k.addProgram(id)
	}
	return k
}

// addProgram adds a program that uses one of the maps, and all maps that it uses.
func (k *kernelObjects) addProgram(id ebpf.ProgramID) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return // gone meanwhile
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return
	}
	used, _ := info.MapIDs()
	if !slices.ContainsFunc(used, func(id ebpf.MapID) bool { return k.maps[id] != "" }) {
		return
	}
	k.progs[id] = info.Name
	for _, id := range used {
		if k.maps[id] == "" {
			k.maps[id] = "of " + info.Name
		}
	}
}

// describe notes the sizes of the shared programs (at each hook one for the common packet and one an IP
// version) and checks that they, those that see losses, queues, and interfaces that come and move, and
// a stub for each hook of the four ports are there.
func (k *kernelObjects) describe(t *testing.T) {
	t.Helper()
	want := 4*2 + 8 // the network has no IPv6, and no node redirects
	if len(k.progs) != want || len(k.maps) == 0 {
		t.Errorf("the domain has %d programs and %d maps, want %d programs", len(k.progs), len(k.maps), want)
	}
	for id, name := range k.progs {
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			t.Fatalf("open program %s: %v", name, err)
		}
		if strings.HasPrefix(name, "radar_") {
			logProgram(t, p)
		}
		p.Close()
	}
}

// gone checks that the kernel has none of them any more. It frees them a little
// after the last reference is dropped. Looking must not take a reference: a
// program array that is opened and closed while it is being emptied is never
// freed (seen on 6.18).
func (k *kernelObjects) gone(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		maps.DeleteFunc(k.progs, func(id ebpf.ProgramID, _ string) bool {
			next, err := ebpf.ProgramGetNextID(id - 1)
			return err != nil || next != id
		})
		maps.DeleteFunc(k.maps, func(id ebpf.MapID, _ string) bool {
			next, err := ebpf.MapGetNextID(id - 1)
			return err != nil || next != id
		})
		if len(k.progs)+len(k.maps) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Errorf("after detach the kernel still has programs %v and maps %v", k.progs, k.maps)
			return
		}
	}
}

// leftover checks that neither files nor qdiscs of a domain are left, and that
// what was there before is.
func (w *network) leftover(t *testing.T, name string) {
	t.Helper()
	for _, dir := range []string{domain.Dir(name), domain.PinDir(name)} {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after detach %s is still there (%v)", dir, err)
		}
	}
	kinds := make(map[string]int)
	for _, node := range []topo.NodeSpec{w.h1, w.r1, w.h2} {
		in(t, node, func() error {
			qdiscs, err := netlink.QdiscList(nil)
			for _, q := range qdiscs {
				kinds[q.Type()]++
			}
			return err
		})
	}
	if kinds["clsact"] != 0 || kinds["tbf"] != 1 {
		t.Errorf("qdiscs after detach: %v; want no clsact and the tbf", kinds)
	}
}
