// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/vnet/backpack"
	"github.com/vnetradar/radar/pkg/vnet/datapath"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
)

// watchProgram is "udp dst port 7007 and len < 60000, or dst host ..." with so many
// hosts that are not there, written by hand: libpcap is no part of a static binary. It
// has an instruction of every kind that libpcap makes of common expressions.
func watchProgram(t *testing.T, hosts int) []bpf.RawInstruction {
	t.Helper()
	insns := []bpf.Instruction{
		bpf.LoadAbsolute{Off: 9, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 17, SkipTrue: 11},
		bpf.LoadAbsolute{Off: 6, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x1fff, SkipTrue: 9},
		bpf.LoadExtension{Num: bpf.ExtLen},
		bpf.StoreScratch{Src: bpf.RegA, N: 15},
		bpf.LoadMemShift{Off: 0},
		bpf.LoadIndirect{Off: 2, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: udpPort, SkipTrue: 4},
		bpf.LoadConstant{Dst: bpf.RegX, Val: 60000},
		bpf.LoadScratch{Dst: bpf.RegA, N: 15},
		bpf.JumpIfX{Cond: bpf.JumpGreaterOrEqual, SkipTrue: 1},
		bpf.RetConstant{Val: 65535},
		bpf.LoadAbsolute{Off: 16, Size: 4},
	}
	for i := range hosts {
		insns = append(insns, bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0xcb007100 + uint32(i), SkipFalse: 1}, bpf.RetConstant{Val: 65535})
	}
	raw, err := bpf.Assemble(append(insns, bpf.RetConstant{Val: 0}))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestWatch: an expression with many hosts loads, and decides what is measured.
func TestWatch(t *testing.T) {
	need.AsRoot(t)
	w, name := newNetwork(t), fmt.Sprintf("rdrkw%d", os.Getpid())
	o := program.DefaultOptions()
	o.Slots, o.Hook, o.Lease = 1<<16, program.HookClsact, 0
	o.Watch, o.WatchProgram = "udp dst port 7007", watchProgram(t, 200)
	res := w.attach(t, name, &o)
	t.Cleanup(func() { detach(t, name) })
	loadedBy(t, name).describe(t)
	w.sendDatagrams(t, datagrams)
	w.ping(t, echoes)
	checkWatched(t, res.Domain)
}

// checkWatched demands that the datagrams are measured and the echoes are not.
func checkWatched(t *testing.T, d *domain.Domain) {
	t.Helper()
	maps, err := backpack.Open(d)
	if err != nil {
		t.Fatalf("open the ring: %v", err)
	}
	defer maps.Close()
	recs, _, err := backpack.Scan(maps, backpack.NewDecoder(d, nil), backpack.ScanOptions{})
	if err != nil {
		t.Fatalf("read the ring: %v", err)
	}
	checkKind(t, "datagram", sortRecords(recs).datagrams, datagrams, "h1", "r1", "h2")
	h, err := datapath.Open(d.Name)
	if err != nil {
		t.Fatalf("open the domain: %v", err)
	}
	defer h.Close()
	counters, err := h.Counters()
	if err != nil {
		t.Fatalf("read counters: %v", err)
	}
	want := map[string]uint64{"seen": datagrams + 2*echoes, "marked": datagrams, "not_measured_watch": 2 * echoes}
	for _, c := range counters {
		if n, ok := want[c.Name]; ok && c.Value != n {
			t.Errorf("counter %s is %d, want %d", c.Name, c.Value, n)
		}
	}
}
