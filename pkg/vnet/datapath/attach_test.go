// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/vnetradar/radar/lab/test/need"
	"github.com/vnetradar/radar/pkg/bpfobj"
	"github.com/vnetradar/radar/pkg/fault"
	"github.com/vnetradar/radar/pkg/vnet/datapath/merge"
	"github.com/vnetradar/radar/pkg/vnet/datapath/program"
	"github.com/vnetradar/radar/pkg/vnet/domain"
	"github.com/vnetradar/radar/pkg/vnet/topo"
)

var chain = []string{"a", "r", "b"}

// anyHook runs a test on TCX and on clsact in make nightly, and on one of them, which its name
// chooses, elsewhere: what it asks does not depend on the hook, and half of them use each.
func anyHook(t *testing.T, f func(t *testing.T, hook string)) {
	if need.IsNightly(t) {
		bothHooks(t, f)
		return
	}
	sideBySide(t)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(t.Name()))
	hook := []string{program.HookTCX, program.HookClsact}[hash.Sum32()%2]
	t.Run(hook, func(t *testing.T) { f(t, hook) })
}

// bothHooks runs a test on TCX and on clsact, in every tier.
func bothHooks(t *testing.T, f func(t *testing.T, hook string)) {
	sideBySide(t)
	for _, hook := range []string{program.HookTCX, program.HookClsact} {
		t.Run(hook, func(t *testing.T) { f(t, hook) })
	}
}

func TestAttachDetach(t *testing.T) {
	bothHooks(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		l.ping()
		before := l.tc(chain...)
		r := l.attach(chain...)
		if !r.New || r.AddedNodes != 3 || r.AddedPorts != 4 || r.Memory.Ring != 1<<20 {
			t.Errorf("result %+v", r)
		}
		if d := r.Domain; d.Options.Hook != hook || d.LossHook != program.DropHook || d.Options.SlotBytes != 256 {
			t.Errorf("description %+v", d)
		}
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort)
		l.ping()
		wantKnown(t, l)

		objects := l.objects()
		if got := objects.portLinks; hook == program.HookTCX && got != 2*4 || hook == program.HookClsact && got != 0 {
			t.Errorf("%d links of ports", got)
		}
		d := l.detach()
		if !d.Ended || d.Nodes != 3 || d.Ports != 4 || d.InFlight != 0 {
			t.Errorf("detached %+v", d)
		}
		l.wantNothing(objects)
		if after := l.tc(chain...); after != before {
			t.Errorf("tc before:\n%s\nand after:\n%s", before, after)
		}
		l.ping()
		if _, err := Detach(t.Context(), DetachRequest{Domain: l.domain}); !errors.Is(err, domain.ErrNotAttached) {
			t.Errorf("second detach: %v", err)
		}
		l.wantNoFiles()
	})
}

// wantKnown checks what the programs are told about devices and addresses.
func wantKnown(t *testing.T, l *lab) {
	t.Helper()
	h := l.open()
	defer h.Close()
	for i := range h.Domain.Ports {
		p := &h.Domain.Ports[i]
		var id uint32
		dev := bpfobj.TcRdrDev{NetnsInum: h.Domain.NodeByID(p.Node).Inum, Ifindex: uint32(p.Ifindex)}
		if err := h.maps[bpfobj.TcMapDevs].Lookup(&dev, &id); err != nil || id != uint32(p.ID) {
			t.Errorf("device of %s is port %d (%v)", merge.PortName(h.Domain, p), id, err)
		}
	}
	for _, n := range h.Domain.Nodes {
		// 10.0.1.2 as it lies in a packet; only r owns it.
		key := bpfobj.TcRdrLocal{Node: uint32(n.ID), Addr: 0x0201000a}
		var one uint8
		if err := h.maps[bpfobj.TcMapLocals].Lookup(&key, &one); (err == nil) != (n.Name == "r") {
			t.Errorf("10.0.1.2 is an address of %s: %v", n.Name, err)
		}
	}
}

func TestPlanChangesNothing(t *testing.T) {
	l := newChain(t, program.HookTCX)
	r, err := Plan(t.Context(), l.request(chain...))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Domain.Ports) != 4 || r.Memory.Total() == 0 {
		t.Errorf("plan %+v", r)
	}
	l.wantNoFiles()
}

// Sources mark only when everything is attached: the lease is set last.
func TestAttachGivesLease(t *testing.T) {
	l := newChain(t, program.HookTCX)
	begin := time.Now()
	l.attach(chain...)
	left, ends := l.open().Lease().Left()
	if !ends || left < l.opts.Lease-time.Since(begin) || left > l.opts.Lease {
		t.Errorf("lease left %v, %v", left, ends)
	}
}

// Ours must run before programs that were there first.
func TestAttachRunsFirst(t *testing.T) {
	l := newChain(t, program.HookTCX)
	index := l.Index("a", "e0")
	foreign := newForeign(t)
	spec := l.specs("a")[0]
	var foreignLink link.Link
	err := spec.Do(func() (err error) {
		foreignLink, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: foreign, Attach: ebpf.AttachTCXEgress})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer foreignLink.Close()
	l.attach(chain...)
	var result *link.QueryResult
	err = spec.Do(func() (err error) {
		result, err = link.QueryPrograms(link.QueryOptions{Target: index, Attach: ebpf.AttachTCXEgress})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := foreign.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, _ := info.ID()
	if len(result.Programs) != 2 || result.Programs[1].ID != id {
		t.Errorf("programs %+v, want ours before %d", result.Programs, id)
	}
	l.ping()
}

// newForeign is a program of someone else's that passes everything.
func newForeign(t *testing.T) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "foreign", Type: ebpf.SchedCLS, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// spy is a context that looks around whenever it is asked whether it has ended.
type spy struct {
	context.Context
	look func()
}

func (s *spy) Err() error {
	s.look()
	return nil
}

// While programs are being attached nobody marks toward a port that has none yet.
func TestAttachOrder(t *testing.T) {
	l := newChain(t, program.HookTCX)
	looks := 0
	look := func(want ...string) func() {
		return func() {
			looks++
			if l.open().Domain.LossHook == "" && !l.open().Lease().IsNone() {
				t.Error("a lease before all is attached")
			}
			l.wantFlags(want...)
		}
	}
	// Ports that the programs have not been told about are zero.
	first := look("a/e0 "+restoring, "r/e0 "+restoring, "r/e1 "+restoring)
	l.unknownPorts = true
	if _, err := Attach(&spy{t.Context(), first}, l.request("a", "r")); err != nil {
		t.Fatal(err)
	}
	more := look("a/e0 "+internalPort, "b/e0 "+restoring, "r/e0 "+internalPort, "r/e1 "+edgePort)
	if _, err := Attach(&spy{t.Context(), more}, l.request("b")); err != nil {
		t.Fatal(err)
	}
	if looks != 3 {
		t.Errorf("looked around %d times, want once for each node", looks)
	}
}

func TestExtend(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newChain(t, hook)
		first := l.attach("a", "r")
		l.wantFlags("a/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+edgePort)

		r, err := Attach(t.Context(), AttachRequest{Domain: l.domain, Nodes: l.specs("b")})
		if err != nil {
			t.Fatal(err)
		}
		if r.New || r.AddedNodes != 1 || r.AddedPorts != 1 {
			t.Errorf("extended %+v", r)
		}
		l.wantFlags("a/e0 "+internalPort, "b/e0 "+internalPort, "r/e0 "+internalPort, "r/e1 "+internalPort)
		for _, p := range first.Domain.Ports {
			if now := r.Domain.PortByID(p.ID); now.Name != p.Name || now.Node != p.Node {
				t.Errorf("port %+v became %+v", p, now)
			}
		}
		l.ping()

		l.detachAll()
	})
}

func TestRoleOverrideStays(t *testing.T) {
	l := newChain(t, program.HookTCX)
	req := l.request(chain...)
	req.Roles = []topo.RoleOverride{{Node: "r", Port: "e1", Role: domain.Edge}}
	r, err := Attach(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if p := l.port(r.Domain, "r", "e1"); p.Role != domain.Edge || !p.Forced || p.Peer < 0 {
		t.Errorf("port %+v", p)
	}
	want := []string{"a/e0 " + internalPort, "b/e0 " + internalPort, "r/e0 " + internalPort, "r/e1 " + edgePort}
	l.wantFlags(want...)
	if c := l.refresh(); !c.Empty() {
		t.Errorf("refresh changed %+v", c)
	}
	l.wantFlags(want...)
	// It can be changed without adding a node.
	r, err = Attach(t.Context(), AttachRequest{Domain: l.domain, Roles: []topo.RoleOverride{{Node: "r", Port: "e1", Role: domain.Internal}}})
	if err != nil {
		t.Fatal(err)
	}
	if p := l.port(r.Domain, "r", "e1"); p.Role != domain.Internal || !p.Forced {
		t.Errorf("port %+v", p)
	}
}

func TestAttachRefuses(t *testing.T) {
	l := newChain(t, program.HookTCX)
	for what, req := range map[string]AttachRequest{
		"no nodes":     {Domain: l.domain},
		"bad name":     {Domain: "../x", Nodes: l.specs("a")},
		"dot in name":  {Domain: "a.b", Nodes: l.specs("a")}, // the BPF file system refuses it
		"bad options":  {Domain: l.domain, Nodes: l.specs("a"), Options: &program.Options{}},
		"unknown hook": {Domain: l.domain, Nodes: l.specs("a"), Options: withHook("xdp")},
	} {
		if _, err := Attach(t.Context(), req); !errors.Is(err, fault.Usage) {
			t.Errorf("%s: %v", what, err)
		}
		l.wantNoFiles()
	}
	l.attach("a")
	other := l.request("a")
	other.Options = withHook(program.HookClsact)
	if _, err := Attach(t.Context(), other); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), "‹hook›") {
		t.Errorf("other options for an attached domain: %v", err)
	}
	// The same namespace in two domains.
	second := AttachRequest{Domain: l.domain + "x", Nodes: l.specs("a")}
	if _, err := Attach(t.Context(), second); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), l.domain) {
		t.Errorf("namespace of another domain: %v", err)
		_, _ = Detach(t.Context(), DetachRequest{Domain: second.Domain, NoDrain: true})
	}
}

// Inode numbers are used again: a node of a dead domain is not in the way of a
// namespace that has its number now.
func TestAttachUsedNumber(t *testing.T) {
	anyHook(t, func(t *testing.T, hook string) {
		l := newLab(t, hook, "a", "b", "bare", "dead")
		l.Veth("a", "e0", "b", "e0")
		l.Veth("dead", "e0", "dead", "e1")
		l.attach("dead", "b", "bare")
		l.Delete("dead")
		spec := l.specs("a")[0]
		// What the kernel would do with the number, at a time of its choosing.
		pretend := func(node string, change func(*domain.Node)) {
			t.Helper()
			d, err := domain.Load(l.domain)
			if err != nil {
				t.Fatal(err)
			}
			change(&d.Nodes[slices.IndexFunc(d.Nodes, func(n domain.Node) bool { return n.Name == node })])
			if err := d.Save(); err != nil {
				t.Fatal(err)
			}
		}
		pretend("dead", func(n *domain.Node) { n.Inum = spec.Inum })
		second := AttachRequest{Domain: l.domain + "x", Nodes: []topo.NodeSpec{spec}, Options: &l.opts}
		if _, err := Attach(t.Context(), second); err != nil {
			t.Errorf("namespace with the number of a dead node: %v", err)
		}
		if _, err := Detach(t.Context(), DetachRequest{Domain: second.Domain, NoDrain: true}); err != nil {
			t.Error(err)
		}
		// A node that only lost its path has its programs still, one that has no
		// port yet its path.
		pretend("b", func(n *domain.Node) { n.Path += "-gone" })
		for _, node := range []string{"b", "bare"} {
			second.Nodes = l.specs(node)
			if _, err := Plan(t.Context(), second); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), l.domain) {
				t.Errorf("node %s of another domain: %v", node, err)
			}
		}
	})
}

func withHook(hook string) *program.Options {
	o := program.DefaultOptions()
	o.Hook = hook
	return &o
}
