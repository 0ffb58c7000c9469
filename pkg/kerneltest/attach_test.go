// SPDX-License-Identifier: Apache-2.0

package kerneltest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/vnetradar/radar/pkg/datapath"
	"github.com/vnetradar/radar/pkg/domain"
	"github.com/vnetradar/radar/pkg/topo"
)

// What is sent through the network.
const (
	datagrams   = 200
	echoes      = 200
	lost        = 20
	streamBytes = 2 << 20
)

// variant is one way to attach.
type variant struct {
	name   string
	hook   string
	change func(*datapath.Options)
}

var variants = []variant{
	{"clsact", datapath.HookClsact, func(*datapath.Options) {}},
	{"clsact-header", datapath.HookClsact, func(o *datapath.Options) { o.Carry = "header" }},
	{"clsact-paper", datapath.HookClsact, func(o *datapath.Options) { o.GUIDBits = "paper" }},
	{"clsact-wide", datapath.HookClsact, func(o *datapath.Options) { o.GUIDBits, o.MaxHops = "22", 26 }},
	{"tcx", datapath.HookTCX, func(*datapath.Options) {}},
}

// TestAttach measures a small network in every way that the kernel offers: what
// arrives is what was sent, every packet has its record, and after detaching
// nothing is left.
func TestAttach(t *testing.T) {
	needRoot(t)
	features := datapath.Probe()
	for _, v := range variants {
		if v.hook == datapath.HookTCX && !features.TCX {
			if !olderThan(features.Kernel, 6, 6) {
				t.Errorf("kernel %s has TCX, but it cannot be used", features.Kernel)
			}
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			o := datapath.DefaultOptions()
			o.Slots, o.Hook = 1<<16, v.hook
			o.Lease = 0 // an emulated machine is slow
			v.change(&o)
			measure(t, newNetwork(t), o, features)
		})
	}
}

// olderThan compares a kernel's release, such as 5.10.0-46-cloud-amd64.
func olderThan(release string, major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(release, "%d.%d", &a, &b); err != nil {
		return false
	}
	return a < major || a == major && b < minor
}

// measure attaches, sends, compares, detaches.
func measure(t *testing.T, w *network, o datapath.Options, features datapath.Features) {
	name := fmt.Sprintf("rdrkt%d", os.Getpid())
	res, err := datapath.Attach(t.Context(), datapath.AttachRequest{
		Domain: name, Nodes: []topo.NodeSpec{w.h1, w.r1, w.h2}, Options: &o,
	})
	if err != nil {
		t.Fatalf("attach: %+v", err)
	}
	detached := false
	t.Cleanup(func() {
		if !detached { // the test failed before; leave nothing all the same
			detach(t, name)
		}
	})
	if res.Domain.Options.Hook != o.Hook {
		t.Errorf("attached with hook %s, want %s", res.Domain.Options.Hook, o.Hook)
	}
	t.Logf("memory: %v", res.Memory)
	loaded := loadedBy(t, name)
	loaded.describe(t, features)

	w.sendDatagrams(t, datagrams)
	w.ping(t, echoes)
	w.sendNowhere(t, lost)
	w.stream(t, streamBytes)

	check(t, res.Domain, features)
	detached = true
	detach(t, name)
	loaded.gone(t)
	w.leftover(t, name)
}

func detach(t *testing.T, name string) {
	t.Helper()
	res, err := datapath.Detach(t.Context(), datapath.DetachRequest{Domain: name})
	if err != nil {
		t.Errorf("detach: %v", err)
		return
	}
	if !res.Ended || res.Nodes != 3 {
		t.Errorf("detach: %+v", *res)
	}
}

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

// describe notes the sizes of the shared programs and checks that they and a
// stub for each hook of the four ports are there.
func (k *kernelObjects) describe(t *testing.T, features datapath.Features) {
	t.Helper()
	want := 4*2 + 2
	if features.DropHook {
		want++
	}
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
