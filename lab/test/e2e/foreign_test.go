// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/lab/test/nstest"
	"github.com/vnetradar/radar/lab/test/oracle"
)

// foreign is somebody else's program at a hook: it counts packets and lets them pass.
type foreign struct {
	name  string
	count *ebpf.Map
	close func() error
}

func (f *foreign) packets(t *testing.T) (n uint64) {
	t.Helper()
	if err := f.count.Lookup(uint32(0), &n); err != nil {
		t.Fatalf("count of %s: %v", f.name, err)
	}
	return n
}

// newForeign loads a program that counts.
func newForeign(t *testing.T, name string) (*foreign, *ebpf.Program) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	const next = -1 // TC_ACT_UNSPEC, TCX_NEXT
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "someone", Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, next).WithSymbol("out"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); m.Close() })
	return &foreign{name: name, count: m}, p
}

// foreignTCX attaches at the head or at the end of a TCX hook.
func (n *network) foreignTCX(t *testing.T, node, port, name string, at ebpf.AttachType, anchor link.Anchor) *foreign {
	t.Helper()
	f, p := newForeign(t, name)
	err := n.within(node, func() error {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		attached, err := link.AttachTCX(link.TCXOptions{Interface: l.Attrs().Index, Program: p, Attach: at, Anchor: anchor})
		if err == nil {
			f.close = attached.Close
		}
		return err
	})
	if err != nil {
		t.Fatalf("attach %s to %s/%s: %v", name, node, port, err)
	}
	t.Cleanup(func() { f.close() })
	return f
}

// foreignFilter adds a clsact filter of that priority, and clsact if need be.
func (n *network) foreignFilter(t *testing.T, node, port, name string, parent uint32, priority uint16) *foreign {
	t.Helper()
	f, p := newForeign(t, name)
	err := n.within(node, func() error {
		l, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		index := l.Attrs().Index
		clsact := &netlink.GenericQdisc{QdiscType: "clsact", QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		}}
		if err := netlink.QdiscAdd(clsact); err != nil && err != unix.EEXIST {
			return err
		}
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: index, Parent: parent, Priority: priority, Protocol: unix.ETH_P_ALL},
			Fd:          p.FD(), Name: "someone", DirectAction: true,
		})
	})
	if err != nil {
		t.Fatalf("add filter %s to %s/%s: %v", name, node, port, err)
	}
	return f
}

// programs are those of each hook of a node's ports, in the order in which they run.
func (n *network) programs(t *testing.T, node string) map[string][]ebpf.ProgramID {
	t.Helper()
	hooks := map[string][]ebpf.ProgramID{}
	err := n.within(node, func() error {
		for _, port := range []string{"eth0", "eth1"} {
			l, err := netlink.LinkByName(port)
			if err != nil {
				return err
			}
			for _, hook := range []struct {
				name   string
				tcx    ebpf.AttachType
				parent uint32
			}{{"ingress", ebpf.AttachTCXIngress, netlink.HANDLE_MIN_INGRESS}, {"egress", ebpf.AttachTCXEgress, netlink.HANDLE_MIN_EGRESS}} {
				list, err := link.QueryPrograms(link.QueryOptions{Target: l.Attrs().Index, Attach: hook.tcx})
				if err != nil {
					return err
				}
				filters, err := netlink.FilterList(l, hook.parent)
				if err != nil {
					return err
				}
				var ids []ebpf.ProgramID
				for _, p := range list.Programs {
					ids = append(ids, p.ID)
				}
				slices.SortStableFunc(filters, func(a, b netlink.Filter) int { return int(a.Attrs().Priority) - int(b.Attrs().Priority) })
				for _, f := range filters {
					if bpf, ok := f.(*netlink.BpfFilter); ok {
						ids = append(ids, ebpf.ProgramID(bpf.Id))
					}
				}
				hooks[port+" "+hook.name] = ids
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("list programs of %s: %v", node, err)
	}
	return hooks
}

// TestForeignPrograms attaches radar where others have programs, and theirs where radar is,
// and takes radar off again, under full load. Theirs go on, in their order.
func TestForeignPrograms(t *testing.T) {
	for _, hook := range []string{"tcx", "clsact"} {
		t.Run(hook, func(t *testing.T) {
			if hook != "tcx" {
				need.Nightly(t)
			}
			net := startNetwork(lifetime(t), t, "chain")
			f := startStopFlows(t, net)
			const node = "r2"
			var others []*foreign
			add := func(when string, first bool) {
				for _, port := range []string{"eth0", "eth1"} {
					for i, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
						name := fmt.Sprintf("attached %s radar, %s, %s", when, port, []string{"ingress", "egress"}[i])
						if first && hook == "tcx" {
							name += ", at the head"
						}
						if hook == "clsact" {
							// Ours comes first, by its priority: TestForeignFilterOfOurPriority.
							priority := uint16(2 + len(others))
							others = append(others, net.foreignFilter(t, node, port, name, parent, priority))
							continue
						}
						anchor := link.Tail()
						if first {
							anchor = link.Head()
						}
						others = append(others, net.foreignTCX(t, node, port, name, []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress}[i], anchor))
					}
				}
			}
			report := &oracle.Report{Title: hook + ": programs of others, attached before radar and after it, under full load"}
			add("before", true)
			add("before", false)
			rad := net.attach(t, routers(net.nodes()), "--hook", hook)
			add("after", true)
			add("after", false)
			nstest.WaitFor(t, "traffic through all programs", func() bool {
				return !slices.ContainsFunc(others, func(o *foreign) bool { return o.packets(t) < 50 })
			})
			report.Add(f.phase(t, "attached", 2*time.Second)...)
			account := rad.account(t, f)
			with := net.programs(t, node)
			rad.run(t, "detach")
			order := &oracle.Row{Check: "hooks with programs in order", Compared: len(with)}
			for hook, now := range net.programs(t, node) {
				if theirs := slices.DeleteFunc(slices.Clone(with[hook]), func(id ebpf.ProgramID) bool { return !slices.Contains(now, id) }); !slices.Equal(theirs, now) || len(with[hook]) != len(now)+1 {
					order.Wrong++
					t.Errorf("%s: programs %v with radar, %v after it", hook, with[hook], now)
				}
			}
			before := make([]uint64, len(others))
			for i, o := range others {
				before[i] = o.packets(t)
			}
			net.run(t, "h1", "ping", "-q", "-c", "5", "-i", "0.01", "10.0.4.2")
			silent := &oracle.Row{Check: "programs of others that go on", Compared: len(others)}
			for i, o := range others {
				if now := o.packets(t); now < before[i]+5 {
					silent.Wrong++
					t.Errorf("%s: %d packets with radar, %d after it", o.name, before[i], now)
				}
			}
			report.Add(account, silent, order)
			keepReport(t, report)
			if !report.OK() {
				t.Error("packets differ, are not accounted for, or programs are gone: see the table")
			}
		})
	}
}
